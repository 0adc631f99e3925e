//! W3C trace context, as far as pure code needs it.

/// The 32 hex digits of a `traceparent`; zeros when it has none.
pub fn trace_id_of(traceparent: &str) -> &str {
    const NONE: &str = "00000000000000000000000000000000";
    match traceparent.split('-').nth(1) {
        Some(id) if id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()) => id,
        _ => NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_well_formed_id_is_taken() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(trace_id_of(&format!("00-{id}-00f067aa0ba902b7-01")), id);
        assert_eq!(trace_id_of("junk"), "0".repeat(32));
        assert_eq!(trace_id_of("00-\r\n-1-1"), "0".repeat(32));
    }
}
