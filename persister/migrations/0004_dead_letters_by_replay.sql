-- The count of what is not replayed and the purge of what is read this index alone. `IF NOT EXISTS` for an index is MariaDB's
-- only, so the statement is chosen; each may run twice.
SET @lapwing = IF(
    (SELECT COUNT(*) FROM information_schema.statistics
     WHERE table_schema = DATABASE() AND table_name = 'dead_letters' AND index_name = 'by_replay') = 0,
    'ALTER TABLE dead_letters ADD KEY by_replay (replayed_at)',
    'DO 0');
PREPARE lapwing FROM @lapwing;
EXECUTE lapwing;
DEALLOCATE PREPARE lapwing;
