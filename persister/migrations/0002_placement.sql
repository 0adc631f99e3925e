-- Several instances (ADR 10). All tables stand on every instance; those of the authority, the first one, count.
--   placements      (topic, partition): the instance that has its rows; `filling`: the one that they are being brought to, `filled`
--                   once all are there; `sweeping`: where they are still to be deleted; empty = none. `version` grows over all rows.
--                   rows_moved, moved_up_to: how far a move has come, for people
--   placement_seen  (name): up to which version a persister has left older placements behind
--   moved_away      (topic, partition): rows of it on this instance are no longer the ones to read
-- Each statement may run twice.

CREATE TABLE IF NOT EXISTS placements (
    topic VARBINARY(64) NOT NULL,
    `partition` INT NOT NULL,
    instance VARBINARY(64) NOT NULL,
    filling VARBINARY(64) NOT NULL,
    filled TINYINT UNSIGNED NOT NULL,
    sweeping VARBINARY(64) NOT NULL,
    version BIGINT NOT NULL,
    rows_moved BIGINT NOT NULL,
    moved_up_to INT UNSIGNED NOT NULL,
    PRIMARY KEY (topic, `partition`)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS placement_seen (
    name VARBINARY(64) NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS moved_away (
    topic VARBINARY(64) NOT NULL,
    `partition` INT NOT NULL,
    PRIMARY KEY (topic, `partition`)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
