-- Table layout of Lapwing. Ids are VARBINARY (byte order, case kept apart); seq, n, times in ms and offsets BIGINT NOT NULL.
--   messages_00 … messages_15   one row an event; table = bucket / 16 (256 commit buckets, 16 a table)
--     PRIMARY KEY (tenant, conversation, seq); n, sender, device, client_mid, content_hash, sent_at_ms,
--     record = the encoded lapwing.record.v1.Record as it stands in Kafka. A message has a client_mid; state events have none.
--   conversations      (tenant, conversation): kind 1 p2p 2 group 3 system, head (= persisted_seq), n, member_count,
--                      history_for_new_members, created_at_ms, bucket (for rebuilding the views of a partition)
--   members            (tenant, conversation, user): from_seq ≤ seq ≤ to_seq is seen; to_seq 0 = still a member
--   cursors            (tenant, user, conversation): read_seq, read_n, delivered_seq, each a maximum
--   partition_offsets  (topic, partition): the position (next_offset, claim_epoch, last_index) that the rows stand for, and the
--                      lease (lease_owner, lease_epoch, lease_until by this server's clock)
--   partition_times    (topic, partition, at_ms): where the position stood each minute of the last day
--   persisters         (name): seen_at; pool_registry (name): connections reserved
--   dead_letters       what can't be stored, with its error, place in the log and payload
--   tombstones         (tenant, conversation, seq): stands for a dead letter in its conversation and keeps the raw record
--   session_audit      (session): opened, closed
-- Only the primary key on messages_NN: a second unique key costs two thirds of the insert rate.
-- Each statement may run twice: DDL commits by itself, so a process that dies here leaves a part behind.

CREATE TABLE IF NOT EXISTS messages_00 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_01 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_02 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_03 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_04 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_05 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_06 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_07 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_08 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_09 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_10 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_11 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_12 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_13 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_14 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS messages_15 (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    n BIGINT NOT NULL,
    sender VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    client_mid VARBINARY(64) NOT NULL,
    content_hash BINARY(16) NOT NULL,
    sent_at_ms BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS conversations (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    kind TINYINT UNSIGNED NOT NULL,
    head BIGINT NOT NULL,
    n BIGINT NOT NULL,
    member_count INT UNSIGNED NOT NULL,
    history_for_new_members TINYINT UNSIGNED NOT NULL,
    created_at_ms BIGINT NOT NULL,
    bucket SMALLINT UNSIGNED NOT NULL,
    PRIMARY KEY (tenant, conversation),
    KEY by_bucket (kind, bucket)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS members (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    user VARBINARY(64) NOT NULL,
    from_seq BIGINT NOT NULL,
    to_seq BIGINT NOT NULL,
    PRIMARY KEY (tenant, conversation, user),
    KEY by_user (tenant, user)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS cursors (
    tenant VARBINARY(64) NOT NULL,
    user VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    read_seq BIGINT NOT NULL,
    read_n BIGINT NOT NULL,
    delivered_seq BIGINT NOT NULL,
    PRIMARY KEY (tenant, user, conversation)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS partition_offsets (
    topic VARBINARY(64) NOT NULL,
    `partition` INT NOT NULL,
    next_offset BIGINT NOT NULL,
    claim_epoch BIGINT NOT NULL,
    last_index BIGINT NOT NULL,
    lease_owner VARBINARY(64) NOT NULL,
    lease_epoch BIGINT NOT NULL,
    lease_until DATETIME(3) NOT NULL,
    PRIMARY KEY (topic, `partition`)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS partition_times (
    topic VARBINARY(64) NOT NULL,
    `partition` INT NOT NULL,
    at_ms BIGINT NOT NULL,
    next_offset BIGINT NOT NULL,
    claim_epoch BIGINT NOT NULL,
    last_index BIGINT NOT NULL,
    PRIMARY KEY (topic, `partition`, at_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS persisters (
    name VARBINARY(64) NOT NULL,
    seen_at DATETIME(3) NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS pool_registry (
    name VARBINARY(64) NOT NULL,
    connections INT UNSIGNED NOT NULL,
    seen_at DATETIME(3) NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS dead_letters (
    id BIGINT NOT NULL AUTO_INCREMENT,
    topic VARBINARY(64) NOT NULL,
    `partition` INT NOT NULL,
    record_offset BIGINT NOT NULL,
    tenant VARBINARY(255) NOT NULL,
    conversation VARBINARY(255) NOT NULL,
    seq_text VARBINARY(20) NOT NULL,
    error_code INT UNSIGNED NOT NULL,
    error VARBINARY(1024) NOT NULL,
    state_event TINYINT UNSIGNED NOT NULL,
    payload LONGBLOB NOT NULL,
    created_at DATETIME(3) NOT NULL,
    replayed_at DATETIME(3) NULL,
    PRIMARY KEY (id),
    UNIQUE KEY place (topic, `partition`, record_offset),
    KEY by_conversation (tenant, conversation)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tombstones (
    tenant VARBINARY(64) NOT NULL,
    conversation VARBINARY(72) NOT NULL,
    seq BIGINT NOT NULL,
    topic VARBINARY(64) NOT NULL,
    `partition` INT NOT NULL,
    record_offset BIGINT NOT NULL,
    record MEDIUMBLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS session_audit (
    session VARBINARY(64) NOT NULL,
    tenant VARBINARY(64) NOT NULL,
    user VARBINARY(64) NOT NULL,
    device VARBINARY(64) NOT NULL,
    node VARBINARY(64) NOT NULL,
    remote VARBINARY(128) NOT NULL,
    opened_at_ms BIGINT NOT NULL,
    closed_at_ms BIGINT NOT NULL,
    close_code INT UNSIGNED NOT NULL,
    PRIMARY KEY (session),
    KEY by_user (tenant, user, opened_at_ms)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
