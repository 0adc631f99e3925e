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
    // A batch has megabytes: it is measured first, since growing by doubling would copy them several times.
    let size = |all: usize, word: &[u8]| all + word.len();
    let bytes = keys.iter().map(AsRef::as_ref).fold(0, size) + args.iter().map(AsRef::as_ref).fold(0, size);
    let mut command = Cmd::with_capacity(keys.len() + args.len() + 3, bytes + script.len() + 32);
    command.arg(verb).arg(script).arg(keys.len());
    for key in keys {
        command.arg(key.as_ref());
    }
    for arg in args {
        command.arg(arg.as_ref());
    }
    command
}
