-- Version 2: refusals in the history. `{s}` stands for the quoted name of the schema.
--
-- The function `commit` has the arguments of version 1: nodes of the former version that run go on with it.

-- No row is written anew, and no default of a new column is computed: other nodes wait for this lock.
ALTER TABLE {s}.history
    -- How often, of a refusal.
    ADD times integer,
    -- Its number among the refusals, or among all others: about as many are kept of each as are asked for, whatever
    -- there is of the other. Some numbers are in no row: those of commits that were undone, or lost in a failover.
    -- Rows of before, which are no refusals, have none here: theirs is `seq`, and that of later rows is above.
    ADD nth bigint;
CREATE SEQUENCE {s}.history_ends OWNED BY {s}.history.nth;
CREATE SEQUENCE {s}.history_refusals;
ALTER TABLE {s}.history ALTER nth SET DEFAULT nextval($name${s}.history_ends$name$);
SELECT setval($name${s}.history_ends$name$, coalesce(max(seq), 0) + 1, false) FROM {s}.history;
CREATE INDEX ON {s}.history (coalesce(nth, seq)) WHERE why <> 'refused';
CREATE INDEX ON {s}.history (nth) WHERE why = 'refused';
CREATE INDEX ON {s}.history (at);

-- One row for each section, in order: 0, it is committed; 1, fenced; 2, out of order, as `expected` comes next.
-- For a node of a fleet then one row with all slots that it owns: 3. Or only one row, and nothing is kept: 4, with
-- the timeline in `expected`, if the node was declared dead, or the generation is another one.
--
-- With `history_rows` 0 no statement of it touches a page of the history: a store goes on so while that is damaged.
--
-- Sections whose writes are claims, and ends of claims, each of a name of its own, are `s_at_once`: the writes
-- of several of them in a row are one statement, as each statement costs more than a row.
CREATE OR REPLACE FUNCTION {s}.commit(
    lock_ms integer, k {s}.known, history_rows bigint, the_node bigint,
    s_slot integer[], s_epoch bigint[], s_writer bigint[], s_first bigint[], s_last bigint[], s_rows integer[],
    s_at_once boolean[],
    b_tenant bytea[], b_bucket bytea[],
    w_bucket integer[], w_kind text[], w_name bytea[], w_owner bigint[], w_token bigint[], w_length bigint[],
    w_at bigint[], w_ends bigint[], w_seed bigint[], w_who bytea[], w_metadata bytea[], w_word text[],
    w_why text[]
)
RETURNS TABLE (outcome integer, expected bigint, owned integer[])
LANGUAGE plpgsql
SET search_path = {s}, pg_catalog, pg_temp
-- A plan that was made while a table was small has to do when it has grown.
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $body$
DECLARE
    v_sections integer := cardinality(s_slot);
    -- The rows of the slots by their numbers, and where they are: while something keeps old versions of them alive
    -- each search for one costs as much as all of these.
    v_states slots[];
    v_places tid[];
    v_row    record;
    v_state  slots;
    v_place  tid;
    -- The writes that are to be carried out at once, and the numbers of their buckets.
    v_writes integer[] := '{}';
    v_ids    bigint[] := '{}';
    -- The bucket of the last write, and its number.
    v_index  integer := 0;
    v_bucket bigint;
    v_write  integer := 0;
    v_end    integer;
BEGIN
    IF begin_statement(lock_ms, k) <> k.generation THEN
        outcome := 4;
    ELSIF the_node IS NOT NULL AND NOT renew(the_node) THEN
        outcome := 4;
    END IF;
    IF outcome = 4 THEN
        expected := timeline();
        RETURN NEXT;
        RETURN;
    END IF;
    -- Always in the same order, so that no two commits wait for each other.
    FOR v_row IN
        SELECT slots AS state, slot, ctid AS place FROM slots WHERE slot = ANY (s_slot) ORDER BY slot FOR UPDATE
    LOOP
        v_states[v_row.slot] := v_row.state;
        v_places[v_row.slot] := v_row.place;
    END LOOP;
    FOR i IN 1 .. v_sections + 1 LOOP
        IF cardinality(v_writes) > 0 AND (i > v_sections OR NOT s_at_once[i]) THEN
            WITH writes AS MATERIALIZED (
                SELECT nr, w_bucket[nr] AS index, v_ids[w_bucket[nr]] AS id, w_kind[nr] AS kind, w_name[nr] AS name
                FROM unnest(v_writes) AS nr
            ), gone AS (
                DELETE FROM claims USING writes
                WHERE kind = 'unclaim' AND bucket = id AND digest = sha256(writes.name)
                RETURNING nr, index, claims.name, token, claimant, since
            ), added AS (
                INSERT INTO history
                    (tenant, bucket, kind, since, at, why, name, token, who, operator, reason)
                SELECT b_tenant[index], b_bucket[index], 'claim', since, w_at[nr], w_why[nr], name, token,
                    claimant, w_who[nr], w_metadata[nr]
                FROM gone
                WHERE history_rows > 0
                ORDER BY nr
            )
            INSERT INTO claims (bucket, name, claimant, token, ttl_ms, since, seal, metadata)
            SELECT id, name, w_who[nr], w_token[nr], w_length[nr], w_at[nr], w_seed[nr], w_metadata[nr]
            FROM writes WHERE kind = 'claim'
            ON CONFLICT (bucket, digest) DO UPDATE SET claimant = excluded.claimant,
                token = excluded.token, ttl_ms = excluded.ttl_ms, since = excluded.since,
                seal = excluded.seal, metadata = excluded.metadata;
            v_writes := '{}';
        END IF;
        EXIT WHEN i > v_sections;
        v_end := v_write + s_rows[i];
        v_state := v_states[s_slot[i]];
        v_place := v_places[s_slot[i]];
        expected := v_state.last_seq + 1;
        IF v_state.slot IS NULL OR v_state.epoch = 0 OR v_state.epoch <> s_epoch[i]
            OR v_state.writer <> s_writer[i]
            -- Another life of the process took it: the slot is free, or was taken without a node.
            OR (v_state.owner IS DISTINCT FROM the_node AND NOT v_state.ended)
        THEN
            outcome := 1;
        ELSIF s_first[i] = 0 THEN
            outcome := 2;
        ELSIF s_last[i] <= v_state.last_seq THEN
            -- Only a commit that has written something is confirmed as far as others are: to a standby.
            UPDATE slots SET last_seq = last_seq WHERE ctid = v_place RETURNING ctid INTO v_place;
            v_places[v_state.slot] := v_place;
            outcome := 0;
        ELSIF v_state.ended THEN
            outcome := 1;
        ELSIF s_first[i] <> expected THEN
            outcome := 2;
        ELSE
            v_index := 0;
            WHILE v_write < v_end LOOP
                v_write := v_write + 1;
                IF w_bucket[v_write] <> v_index THEN
                    v_index := w_bucket[v_write];
                    SELECT id INTO v_bucket FROM buckets
                    WHERE slot = v_state.slot
                        AND digest = sha256(sha256(b_tenant[v_index]) || sha256(b_bucket[v_index]));
                    IF v_bucket IS NULL AND w_kind[v_write] NOT IN ('drop', 'refused') THEN
                        INSERT INTO buckets (slot, tenant, bucket)
                        VALUES (v_state.slot, b_tenant[v_index], b_bucket[v_index])
                        RETURNING id INTO v_bucket;
                    END IF;
                    v_ids[v_index] := v_bucket;
                END IF;
                IF s_at_once[i] AND w_kind[v_write] <> 'reserve' THEN
                    v_writes[cardinality(v_writes) + 1] := v_write;
                    CONTINUE;
                END IF;
                CASE w_kind[v_write]
                WHEN 'claim' THEN
                    INSERT INTO claims (bucket, name, claimant, token, ttl_ms, since, seal, metadata)
                    VALUES (v_bucket, w_name[v_write], w_who[v_write], w_token[v_write], w_length[v_write],
                        w_at[v_write], w_seed[v_write], w_metadata[v_write])
                    ON CONFLICT (bucket, digest) DO UPDATE SET claimant = excluded.claimant,
                        token = excluded.token, ttl_ms = excluded.ttl_ms, since = excluded.since,
                        seal = excluded.seal, metadata = excluded.metadata;
                WHEN 'unclaim' THEN
                    WITH ended AS (
                        DELETE FROM claims WHERE bucket = v_bucket AND digest = sha256(w_name[v_write]) RETURNING *
                    )
                    INSERT INTO history
                        (tenant, bucket, kind, since, at, why, name, token, who, operator, reason)
                    SELECT b_tenant[v_index], b_bucket[v_index], 'claim', since, w_at[v_write],
                        w_why[v_write], name, token, claimant, w_who[v_write], w_metadata[v_write]
                    FROM ended WHERE history_rows > 0;
                WHEN 'lock' THEN
                    -- The owner's earlier lock of the name ends with the new one, if there is one.
                    INSERT INTO history (tenant, bucket, kind, since, at, why, owner, name, mode, token, who)
                    SELECT b_tenant[v_index], b_bucket[v_index], 'offline', since, w_at[v_write],
                        CASE w_word[v_write] WHEN 'exclusive' THEN 'upgraded' ELSE 'downgraded' END, owner,
                        name, mode, token,
                        (SELECT label FROM owners WHERE bucket = v_bucket AND owner = w_owner[v_write])
                    FROM locks
                    WHERE bucket = v_bucket AND digest = sha256(w_name[v_write]) AND owner = w_owner[v_write]
                        AND history_rows > 0;
                    INSERT INTO locks (bucket, name, owner, mode, token, since, metadata)
                    VALUES (v_bucket, w_name[v_write], w_owner[v_write], w_word[v_write], w_token[v_write],
                        w_at[v_write], w_metadata[v_write])
                    ON CONFLICT (bucket, digest, owner) DO UPDATE SET mode = excluded.mode,
                        token = excluded.token, since = excluded.since, metadata = excluded.metadata;
                WHEN 'unlock' THEN
                    WITH ended AS (
                        DELETE FROM locks
                        WHERE bucket = v_bucket AND digest = sha256(w_name[v_write]) AND owner = w_owner[v_write]
                        RETURNING *
                    )
                    INSERT INTO history (tenant, bucket, kind, since, at, why, owner, name, mode, token, who,
                        operator, reason)
                    SELECT b_tenant[v_index], b_bucket[v_index], 'offline', since, w_at[v_write],
                        w_why[v_write], owner, name, mode, token,
                        (SELECT label FROM owners WHERE bucket = v_bucket AND owner = w_owner[v_write]),
                        w_who[v_write], w_metadata[v_write]
                    FROM ended WHERE history_rows > 0;
                WHEN 'reserve' THEN
                    UPDATE buckets SET mark = greatest(mark, w_token[v_write]) WHERE id = v_bucket;
                WHEN 'owner' THEN
                    INSERT INTO owners (bucket, owner, label, metadata, ttl_ms, since, ends, seal)
                    VALUES (v_bucket, w_owner[v_write], w_who[v_write], w_metadata[v_write],
                        w_length[v_write], w_at[v_write], w_ends[v_write], w_seed[v_write])
                    ON CONFLICT (bucket, owner) DO UPDATE SET label = excluded.label,
                        metadata = excluded.metadata, ttl_ms = excluded.ttl_ms, since = excluded.since,
                        ends = excluded.ends, seal = excluded.seal;
                WHEN 'end owner', 'void' THEN
                    -- An owner whose locks became void at its end has ended then.
                    IF w_why[v_write] IS NOT NULL AND history_rows > 0 THEN
                        INSERT INTO history (tenant, bucket, kind, since, at, why, owner, who)
                        SELECT b_tenant[v_index], b_bucket[v_index], 'owner', since, w_at[v_write],
                            w_why[v_write], owner, label
                        FROM owners WHERE bucket = v_bucket AND owner = w_owner[v_write]
                            AND NOT EXISTS (
                                SELECT FROM voided
                                WHERE bucket = v_bucket AND owner = w_owner[v_write] AND what = 'all');
                    END IF;
                    IF w_kind[v_write] = 'void' THEN
                        INSERT INTO voided (bucket, owner, seq, at, what, why, up_to, names)
                        SELECT v_bucket, w_owner[v_write], coalesce(max(seq), 0) + 1, w_at[v_write],
                            w_word[v_write], w_why[v_write], w_token[v_write], w_name[v_write]
                        FROM voided WHERE bucket = v_bucket AND owner = w_owner[v_write];
                    ELSE
                        DELETE FROM voided WHERE bucket = v_bucket AND owner = w_owner[v_write];
                        DELETE FROM owners WHERE bucket = v_bucket AND owner = w_owner[v_write];
                    END IF;
                WHEN 'sweep' THEN
                    DELETE FROM voided WHERE bucket = v_bucket AND owner = w_owner[v_write];
                WHEN 'assign' THEN
                    WITH ended AS (
                        DELETE FROM claims WHERE bucket = v_bucket AND digest = sha256(w_name[v_write]) RETURNING *
                    )
                    INSERT INTO history (tenant, bucket, kind, since, at, why, name, token, who)
                    SELECT b_tenant[v_index], b_bucket[v_index], 'claim', since, w_at[v_write],
                        'finalized', name, token, claimant FROM ended WHERE history_rows > 0;
                    INSERT INTO assignments (bucket, name, claimant, token, since, seal)
                    VALUES (v_bucket, w_name[v_write], w_who[v_write], w_token[v_write], w_at[v_write],
                        w_seed[v_write])
                    ON CONFLICT (bucket, digest) DO UPDATE SET claimant = excluded.claimant,
                        token = excluded.token, since = excluded.since, seal = excluded.seal;
                WHEN 'unassign' THEN
                    WITH ended AS (
                        DELETE FROM assignments WHERE bucket = v_bucket AND digest = sha256(w_name[v_write])
                        RETURNING *
                    )
                    INSERT INTO history (tenant, bucket, kind, since, at, why, name, token, who)
                    SELECT b_tenant[v_index], b_bucket[v_index], 'assignment', since, w_at[v_write],
                        'unassigned', name, token, claimant FROM ended WHERE history_rows > 0;
                WHEN 'refused' THEN
                    INSERT INTO history (tenant, bucket, kind, since, at, why, owner, name, mode, who, times, nth)
                    SELECT b_tenant[v_index], b_bucket[v_index], w_why[v_write], w_ends[v_write], w_at[v_write],
                        'refused', w_owner[v_write], w_name[v_write], w_word[v_write], w_who[v_write],
                        w_length[v_write], nextval('history_refusals')
                    WHERE history_rows > 0;
                    -- The bucket may not be there.
                    v_index := 0;
                WHEN 'needs recovery' THEN
                    UPDATE buckets SET told_in = v_state.epoch WHERE id = v_bucket;
                    UPDATE slots SET clean = false WHERE ctid = v_place RETURNING ctid INTO v_place;
                WHEN 'drop' THEN
                    DELETE FROM owners WHERE bucket = v_bucket;
                    DELETE FROM locks WHERE bucket = v_bucket;
                    DELETE FROM claims WHERE bucket = v_bucket;
                    DELETE FROM assignments WHERE bucket = v_bucket;
                    DELETE FROM voided WHERE bucket = v_bucket;
                    DELETE FROM buckets WHERE id = v_bucket;
                    v_index := 0;
                WHEN 'tenant mark' THEN
                    INSERT INTO tenants (slot, tenant, mark)
                    VALUES (v_state.slot, w_who[v_write], w_token[v_write])
                    ON CONFLICT (slot, digest) DO UPDATE SET mark = greatest(tenants.mark, excluded.mark);
                WHEN 'group mark' THEN
                    INSERT INTO floors (slot, tenant_group, mark)
                    VALUES (v_state.slot, w_who[v_write], w_token[v_write])
                    ON CONFLICT (slot, digest)
                    DO UPDATE SET mark = greatest(floors.mark, excluded.mark);
                WHEN 'floor' THEN
                    UPDATE slots SET token_floor = greatest(token_floor, w_token[v_write])
                    WHERE ctid = v_place RETURNING ctid INTO v_place;
                WHEN 'forget marks' THEN
                    DELETE FROM floors WHERE slot = v_state.slot;
                    DELETE FROM tenants WHERE slot = v_state.slot;
                WHEN 'longest lease' THEN
                    UPDATE slots SET longest_lease_ms = greatest(longest_lease_ms, w_length[v_write])
                    WHERE ctid = v_place RETURNING ctid INTO v_place;
                WHEN 'recovered' THEN
                    UPDATE slots SET tickets_since = epoch, longest_lease_before_ms = 0, restored = false
                    WHERE ctid = v_place RETURNING ctid INTO v_place;
                WHEN 'stopped clean' THEN
                    UPDATE slots SET ended = true, owner = NULL, clean = true, tickets_since = epoch + 1,
                        restored = false, longest_lease_ms = 0, longest_lease_before_ms = 0
                    WHERE ctid = v_place RETURNING ctid INTO v_place;
                WHEN 'stopped holding' THEN
                    UPDATE slots SET ended = true, owner = NULL, held = w_name[v_write]
                    WHERE ctid = v_place RETURNING ctid INTO v_place;
                WHEN 'erase mark' THEN
                    UPDATE slots SET clean = false WHERE ctid = v_place RETURNING ctid INTO v_place;
                END CASE;
            END LOOP;
            UPDATE slots SET last_seq = s_last[i] WHERE ctid = v_place
            RETURNING slots AS state, ctid AS place INTO v_row;
            v_states[v_state.slot] := v_row.state;
            v_places[v_state.slot] := v_row.place;
            outcome := 0;
        END IF;
        v_write := v_end;
        RETURN NEXT;
    END LOOP;
    expected := 0;
    outcome := 3;
    owned := ARRAY(SELECT slot FROM slots WHERE owner = the_node ORDER BY slot);
    RETURN NEXT;
END
$body$;

-- Deletes rows of the history that are beyond its bounds: of each kind the oldest, a thousand at most, those that
-- another node deletes at the moment excepted. No commit waits for it. Refusals, of which a tenth as many stay, push
-- nothing out but refusals. Returns how many of a kind have gone, of the kind with most: with a thousand more may
-- be left.
CREATE FUNCTION {s}.prune_history(lock_ms integer, history_rows bigint, history_oldest bigint) RETURNS bigint
LANGUAGE plpgsql
SET search_path = {s}, pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
AS $body$
DECLARE
    v_gone bigint;
    v_most bigint := 0;
BEGIN
    PERFORM set_config('lock_timeout', lock_ms || 'ms', true);
    -- Where nothing is added, rows go by their age alone.
    IF history_rows > 0 THEN
        DELETE FROM history WHERE seq IN (
            SELECT seq FROM history
            WHERE why <> 'refused'
                AND coalesce(nth, seq)
                    <= (SELECT max(coalesce(nth, seq)) FROM history WHERE why <> 'refused') - history_rows
            ORDER BY coalesce(nth, seq) LIMIT 1000 FOR UPDATE SKIP LOCKED);
        GET DIAGNOSTICS v_most = ROW_COUNT;
        DELETE FROM history WHERE seq IN (
            SELECT seq FROM history
            WHERE why = 'refused'
                AND nth <= (SELECT max(nth) FROM history WHERE why = 'refused') - (history_rows + 9) / 10
            ORDER BY nth LIMIT 1000 FOR UPDATE SKIP LOCKED);
        GET DIAGNOSTICS v_gone = ROW_COUNT;
        v_most := greatest(v_most, v_gone);
    END IF;
    IF history_oldest IS NOT NULL THEN
        DELETE FROM history WHERE seq IN (
            SELECT seq FROM history WHERE at < history_oldest ORDER BY at LIMIT 1000 FOR UPDATE SKIP LOCKED);
        GET DIAGNOSTICS v_gone = ROW_COUNT;
        v_most := greatest(v_most, v_gone);
    END IF;
    RETURN v_most;
END
$body$;
