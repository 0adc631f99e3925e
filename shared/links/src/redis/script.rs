//! One Lua script: one file, one name, one typed function around it (in the service that owns it), one test.

use redis::Cmd;

/// `static APPLY: LazyLock<Script> = LazyLock::new(|| Script::new("redis_apply", include_str!("apply.lua")));`
pub struct Script {
    name: &'static str,
    code: &'static str,
    hash: String,
}

impl Script {
    /// The name is a metric label (`lapwing_rpc_seconds{rpc}`) and stands in errors.
    pub fn new(name: &'static str, code: &'static str) -> Self {
        Self { name, code, hash: redis::Script::new(code).get_hash().to_owned() }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn by_hash<K: AsRef<[u8]>, A: AsRef<[u8]>>(&self, keys: &[K], args: &[A]) -> Cmd {
        words("EVALSHA", self.hash.as_bytes(), keys, args)
    }

    pub(super) fn in_full<K: AsRef<[u8]>, A: AsRef<[u8]>>(&self, keys: &[K], args: &[A]) -> Cmd {
        words("EVAL", self.code.as_bytes(), keys, args)
    }
}

fn words<K: AsRef<[u8]>, A: AsRef<[u8]>>(verb: &str, script: &[u8], keys: &[K], args: &[A]) -> Cmd {
    let mut command = Cmd::new();
    command.arg(verb).arg(script).arg(keys.len());
    for key in keys {
        command.arg(key.as_ref());
    }
    for arg in args {
        command.arg(arg.as_ref());
    }
    command
}
