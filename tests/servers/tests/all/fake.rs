//! Stand-ins for the three services, so that starting, killing and finding them is tested apart from what they do.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Answers every path with 200 and its own name and node; ends at SIGTERM.
const SERVICE: &str = r#"#!/usr/bin/env python3
import os, sys, http.server
host, port = os.environ["LAPWING_ADMIN_ADDR"].rsplit(":", 1)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (os.path.basename(sys.argv[0]) + " " + os.environ["LAPWING_NODE"]).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
"#;

pub(crate) fn binaries(folder: &Path) {
    for name in ["lapwing-gateway", "lapwing-router", "lapwing-persister"] {
        let path = folder.join(name);
        std::fs::write(&path, SERVICE).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}
