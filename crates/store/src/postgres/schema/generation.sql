-- The generation of a fleet: a random number, with the server under which it was drawn. A database that has
-- lost commits, such as an asynchronous standby that was promoted, or files that were put back, is a restored
-- backup: the first statement that finds this draws a new generation.
--
-- Why no commit of before is kept after that. A draw locks the row of the fleet, then all nodes, then all
-- slots, and only then looks at them. A commit reads the generation without a lock, so that no two commits
-- wait for each other, then locks the row of its node, and the rows of its slots. Each of its queries sees
-- what was committed before that query began (READ COMMITTED). So either the commit has its first lock before
-- the draw, which waits for it, and leaps above all that it wrote. Or it has to wait for the draw: then the
-- row of its node is gone, and the epochs of its slots are others, which it reads behind the locks. On a
-- server whose timeline is not the row's no statement gets that far: it draws itself, or waits for the draw.

ALTER TABLE {s}.fleet
    ADD generation bigint NOT NULL DEFAULT 0,
    -- Of the server: its system identifier, 0 if the account may not ask for it, and its timeline.
    ADD system_id  bigint NOT NULL DEFAULT 0,
    ADD timeline   bigint NOT NULL DEFAULT 0;

-- What a process knows: the generation that it has learned, the newest timeline that it has seen, and with
-- which system identifier; slots that it took, with the epochs and writers, and the last write of each that
-- was confirmed.
CREATE TYPE {s}.known AS (
    generation bigint,
    system_id  bigint,
    timeline   bigint,
    slots      integer[],
    epochs     bigint[],
    writers    bigint[],
    last_seqs  bigint[]
);

CREATE FUNCTION {s}.random_number() RETURNS bigint LANGUAGE sql
AS 'SELECT hashtextextended(gen_random_uuid()::text, 0)';

-- The timeline on which this server writes. The control file has the one of its last checkpoint, which may be
-- an older one.
CREATE FUNCTION {s}.timeline() RETURNS bigint LANGUAGE plpgsql AS $body$
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE read_only_sql_transaction USING MESSAGE = 'the server follows another one';
    END IF;
    RETURN ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint;
END
$body$;

CREATE FUNCTION {s}.system_id() RETURNS bigint LANGUAGE plpgsql AS $body$
BEGIN
    IF has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE') THEN
        RETURN (SELECT system_identifier FROM pg_control_system());
    END IF;
    RETURN 0;
END
$body$;

-- The number above which those of a restored state go on: the rule of `leap.rs`, a minute ahead of the clock. A
-- former primary that goes on to take slots raises their tokens to the clock, too: for a minute they stay below
-- those of the new generation, and the fence lets nothing of it pass that comes later. Of two servers that draw
-- a generation in the same moment each goes on above another number, by chance within an eighth of a second.
CREATE FUNCTION {s}.leap(highest bigint) RETURNS bigint LANGUAGE plpgsql AS $body$
DECLARE
    v_clock bigint := floor(extract(epoch FROM clock_timestamp()) * (1 << 20));
    v_above bigint;
BEGIN
    -- A clock before 1970 says nothing. A bucket may have reserved 2^20, a second's, beyond the clock.
    v_clock := CASE WHEN v_clock > 0
        THEN v_clock + (60 + 1) * (1 << 20) + floor(random() * (1 << 17))::bigint ELSE 0 END;
    v_above := CASE WHEN v_clock > highest THEN v_clock ELSE highest + (1::bigint << 47) END;
    IF v_above >= (1::bigint << 53) - 1 THEN
        RAISE 'fencing tokens would go on above %, but they end at 2^53', v_above;
    END IF;
    RETURN v_above;
END
$body$;

-- The fencing tokens that count as given by now, whatever is known of the past: the rule of `token_floor` in
-- `leap.rs`.
CREATE FUNCTION {s}.floor_by_clock() RETURNS bigint LANGUAGE plpgsql AS $body$
DECLARE
    v_clock bigint := floor(extract(epoch FROM clock_timestamp()) * (1 << 20));
BEGIN
    -- A clock before 1970 or after 2106 says nothing.
    RETURN CASE WHEN v_clock > 0 AND v_clock < 1::bigint << 52 THEN v_clock ELSE 0 END;
END
$body$;

-- Draws a new generation, unless it is another one already than the one that was seen. All of this is as
-- after the restore of a backup; besides, every slot is free.
CREATE FUNCTION {s}.draw_generation(seen bigint) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    v_mark    bigint;
    v_epoch   bigint;
    v_longest bigint;
BEGIN
    -- Of several that find the same, the others wait here, and find that it is done.
    PERFORM 1 FROM fleet WHERE generation = seen FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM 1 FROM nodes ORDER BY incarnation FOR UPDATE;
    PERFORM 1 FROM slots ORDER BY slot FOR UPDATE;
    SELECT leap(max(mark)) INTO v_mark FROM (
        SELECT mark FROM buckets UNION ALL SELECT mark FROM tenants UNION ALL SELECT mark FROM floors
        UNION ALL SELECT token_floor FROM slots
    ) AS marks;
    SELECT leap(max(epoch)), max(greatest(longest_lease_ms, longest_lease_before_ms))
    INTO v_epoch, v_longest FROM slots;
    -- The floor of the slots is as high for all buckets.
    DELETE FROM tenants;
    DELETE FROM floors;
    DELETE FROM nodes;
    UPDATE slots
    SET epoch = v_epoch, owner = NULL, last_seq = 0, ended = false, clean = false, restored = true, held = NULL,
        longest_lease_before_ms = v_longest, token_floor = v_mark;
    UPDATE buckets SET mark = v_mark, told_in = v_epoch;
    UPDATE fleet SET generation = random_number(), system_id = system_id(), timeline = timeline();
END
$body$;

-- What every statement that writes begins with. Returns the generation, after a new one was drawn if need be.
-- A server that writes on an older timeline than another one that was seen was demoted: it is left.
CREATE FUNCTION {s}.begin_statement(lock_ms integer, k {s}.known) RETURNS bigint LANGUAGE plpgsql AS $body$
DECLARE
    v_system   bigint := system_id();
    v_timeline bigint := timeline();
    v_fleet    {s}.fleet;
BEGIN
    PERFORM set_config('lock_timeout', lock_ms || 'ms', true);
    -- An acknowledged commit is on the disk of this server at least.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'local', true);
    END IF;
    IF v_timeline < k.timeline AND (0 IN (v_system, k.system_id) OR v_system = k.system_id) THEN
        RAISE 'the server writes on timeline %, but one on timeline % has taken its place',
            v_timeline, k.timeline USING ERRCODE = 'LH001';
    END IF;
    SELECT * INTO v_fleet FROM fleet;
    IF v_timeline <> v_fleet.timeline
        OR (0 NOT IN (v_system, v_fleet.system_id) AND v_system <> v_fleet.system_id)
        -- The row of a slot is behind what was confirmed. An epoch has only one writer.
        OR EXISTS (
            SELECT FROM slots
            JOIN unnest(k.slots, k.epochs, k.writers, k.last_seqs) AS known (slot, epoch, writer, seq)
                USING (slot)
            WHERE slots.epoch < known.epoch OR slots.epoch = known.epoch
                AND (slots.writer <> known.writer OR slots.last_seq < known.seq))
    THEN
        PERFORM draw_generation(v_fleet.generation);
        SELECT * INTO v_fleet FROM fleet;
    END IF;
    RETURN v_fleet.generation;
END
$body$;

-- The generation as it is; or, if the caller says that the database was put back, after a new one was drawn in
-- the place of the one that the caller knows.
CREATE FUNCTION {s}.learn(lock_ms integer, k {s}.known, is_restored boolean)
RETURNS TABLE (generation bigint, system_id bigint, timeline bigint)
LANGUAGE plpgsql
SET search_path = {s}, pg_catalog, pg_temp
AS $body$
#variable_conflict use_column
BEGIN
    PERFORM begin_statement(lock_ms, k);
    IF is_restored THEN
        PERFORM draw_generation(k.generation);
    END IF;
    RETURN QUERY SELECT generation, system_id, timeline FROM fleet;
END
$body$;

UPDATE {s}.fleet SET generation = {s}.random_number(), system_id = {s}.system_id(), timeline = {s}.timeline();

