-- Version 1: the tables and the functions of takes and commits. `{s}` stands for the quoted name of the schema.
--
-- Names are found by their digests: a row of an index has no room for long ones.

CREATE TABLE {s}.slots (
    slot                    integer PRIMARY KEY,
    epoch                   bigint  NOT NULL DEFAULT 0,
    writer                  bigint  NOT NULL DEFAULT 0,
    -- The node that owns the slot, if its row is there still. A slot whose owner has no row is free.
    owner                   bigint,
    -- That of the node that took the slot last.
    slot_lease_ms           bigint  NOT NULL DEFAULT 0,
    last_seq                bigint  NOT NULL DEFAULT 0,
    ended                   boolean NOT NULL DEFAULT false,
    clean                   boolean NOT NULL DEFAULT true,
    restored                boolean NOT NULL DEFAULT false,
    longest_lease_ms        bigint  NOT NULL DEFAULT 0,
    longest_lease_before_ms bigint  NOT NULL DEFAULT 0,
    tickets_since           bigint  NOT NULL DEFAULT 1,
    token_floor             bigint  NOT NULL DEFAULT 0,
    held                    bytea
) WITH (fillfactor = 50);
CREATE INDEX ON {s}.slots (owner);
INSERT INTO {s}.slots (slot) SELECT generate_series(0, slots - 1) FROM {s}.fleet;

-- The nodes of a fleet that live. Each adds to its own counter with all that it writes; a node whose counter
-- stands still for its slot lease is declared dead by another one, which deletes its row.
CREATE TABLE {s}.nodes (
    incarnation   bigint PRIMARY KEY,
    label         bytea  NOT NULL UNIQUE,
    address       bytea  NOT NULL,
    slot_lease_ms bigint NOT NULL,
    -- A hash of the secret that the nodes share.
    secret_mark   bytea  NOT NULL,
    counter       bigint NOT NULL DEFAULT 1
) WITH (fillfactor = 50);

CREATE TABLE {s}.tenants (
    slot   integer NOT NULL,
    tenant bytea   NOT NULL,
    digest bytea   NOT NULL GENERATED ALWAYS AS (sha256(tenant)) STORED,
    mark   bigint  NOT NULL,
    PRIMARY KEY (slot, digest)
);
CREATE TABLE {s}.floors (
    slot         integer NOT NULL,
    tenant_group bytea   NOT NULL,
    digest       bytea   NOT NULL GENERATED ALWAYS AS (sha256(tenant_group)) STORED,
    mark         bigint  NOT NULL,
    PRIMARY KEY (slot, digest)
);

CREATE TABLE {s}.buckets (
    id      bigint  PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    slot    integer NOT NULL,
    tenant  bytea   NOT NULL,
    bucket  bytea   NOT NULL,
    mark    bigint  NOT NULL DEFAULT 0,
    told_in bigint  NOT NULL DEFAULT 0,
    digest  bytea   NOT NULL GENERATED ALWAYS AS (sha256(sha256(tenant) || sha256(bucket))) STORED,
    UNIQUE (slot, digest)
);

CREATE TABLE {s}.owners (
    bucket   bigint NOT NULL,
    owner    bigint NOT NULL,
    label    bytea  NOT NULL,
    metadata bytea,
    ttl_ms   bigint NOT NULL,
    since    bigint NOT NULL,
    ends     bigint,
    seal     bigint NOT NULL,
    PRIMARY KEY (bucket, owner)
);

CREATE TABLE {s}.locks (
    bucket   bigint NOT NULL,
    name     bytea  NOT NULL,
    digest   bytea  NOT NULL GENERATED ALWAYS AS (sha256(name)) STORED,
    owner    bigint NOT NULL,
    mode     text   NOT NULL CHECK (mode IN ('exclusive', 'shared')),
    token    bigint NOT NULL,
    since    bigint NOT NULL,
    metadata bytea,
    PRIMARY KEY (bucket, digest, owner)
);

CREATE TABLE {s}.claims (
    bucket   bigint NOT NULL,
    name     bytea  NOT NULL,
    digest   bytea  NOT NULL GENERATED ALWAYS AS (sha256(name)) STORED,
    claimant bytea  NOT NULL,
    token    bigint NOT NULL,
    ttl_ms   bigint NOT NULL,
    since    bigint NOT NULL,
    seal     bigint NOT NULL,
    metadata bytea,
    PRIMARY KEY (bucket, digest)
);

CREATE TABLE {s}.assignments (
    bucket   bigint NOT NULL,
    name     bytea  NOT NULL,
    digest   bytea  NOT NULL GENERATED ALWAYS AS (sha256(name)) STORED,
    claimant bytea  NOT NULL,
    token    bigint NOT NULL,
    since    bigint NOT NULL,
    seal     bigint NOT NULL,
    PRIMARY KEY (bucket, digest)
);

CREATE TABLE {s}.voided (
    bucket bigint NOT NULL,
    owner  bigint NOT NULL,
    seq    bigint NOT NULL,
    at     bigint NOT NULL,
    what   text   NOT NULL CHECK (what IN ('all', 'all but', 'these')),
    why    text,
    up_to  bigint,
    names  bytea  NOT NULL,
    PRIMARY KEY (bucket, owner, seq)
);

CREATE TABLE {s}.history (
    seq      bigint  PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    since    bigint  NOT NULL,
    at       bigint  NOT NULL,
    tenant   bytea   NOT NULL,
    bucket   bytea   NOT NULL,
    kind     text    NOT NULL CHECK (kind IN ('owner', 'offline', 'claim', 'assignment')),
    why      text    NOT NULL,
    who      bytea,
    owner    bigint,
    name     bytea,
    mode     text,
    token    bigint,
    operator bytea,
    reason   bytea
);

-- Adds to the counter of a node, whose row is locked from then on: before any row of a slot, in every
-- transaction. False if the node was declared dead.
CREATE FUNCTION {s}.renew(the_node bigint) RETURNS boolean LANGUAGE plpgsql
SET search_path = {s}, pg_catalog, pg_temp
AS $body$
BEGIN
    UPDATE nodes SET counter = counter + 1 WHERE incarnation = the_node;
    RETURN FOUND;
END
$body$;

-- A node joins, and learns the generation; returns the row with its label, which is another one's if the label
-- is in use.
CREATE FUNCTION {s}.join_fleet(
    lock_ms integer, k {s}.known, the_node bigint, the_label bytea, the_address bytea, the_lease_ms bigint,
    the_mark bytea
)
RETURNS TABLE (
    incarnation bigint, label bytea, address bytea, slot_lease_ms bigint, secret_mark bytea, counter bigint,
    generation bigint, system_id bigint, timeline bigint
)
LANGUAGE plpgsql
SET search_path = {s}, pg_catalog, pg_temp
AS $body$
#variable_conflict use_column
BEGIN
    PERFORM begin_statement(lock_ms, k);
    -- A draw deletes the row of this node, or comes before it.
    PERFORM 1 FROM fleet FOR SHARE;
    INSERT INTO nodes (incarnation, label, address, slot_lease_ms, secret_mark)
    VALUES (the_node, the_label, the_address, the_lease_ms, the_mark)
    ON CONFLICT (label) DO NOTHING;
    RETURN QUERY
        SELECT nodes.*, fleet.generation, fleet.system_id, fleet.timeline
        FROM nodes, fleet WHERE label = the_label;
END
$body$;

-- Declares a node dead, if its counter is still the one that was seen. `the_node` does so, and lives itself;
-- or, if it is null, one that has not joined yet.
CREATE FUNCTION {s}.bury(lock_ms integer, k {s}.known, the_node bigint, dead bigint, seen bigint)
RETURNS boolean
LANGUAGE plpgsql
SET search_path = {s}, pg_catalog, pg_temp
AS $body$
BEGIN
    IF begin_statement(lock_ms, k) <> k.generation THEN
        RETURN false;
    END IF;
    -- In order, so that no two nodes wait for each other.
    PERFORM 1 FROM nodes WHERE incarnation IN (the_node, dead) ORDER BY incarnation FOR UPDATE;
    IF the_node IS NOT NULL AND NOT renew(the_node) THEN
        RETURN false;
    END IF;
    DELETE FROM nodes WHERE incarnation = dead AND counter = seen;
    RETURN FOUND;
END
$body$;

-- A node leaves: every slot that it still has is free.
CREATE FUNCTION {s}.leave(lock_ms integer, k {s}.known, the_node bigint) RETURNS void LANGUAGE plpgsql
SET search_path = {s}, pg_catalog, pg_temp
AS $body$
BEGIN
    PERFORM begin_statement(lock_ms, k);
    DELETE FROM nodes WHERE incarnation = the_node;
END
$body$;

-- One row, unless there is no such slot. `verdict`: 0, the slot is taken, and a process that is no node learns
-- the generation with it; 1, the node was declared dead, or joined in another generation; 2, the slot is another
-- node's that lives; 3, it is a slot of a fleet, which takes no slot without a node; 4, the slot has another
-- epoch than the one that was seen, as a take of before may come late.
CREATE FUNCTION {s}.take(
    lock_ms integer, k {s}.known, the_slot integer, the_writer bigint, the_node bigint, seen_epoch bigint
)
RETURNS TABLE (
    verdict integer, key bytea, epoch bigint, clean boolean, restored boolean, longest_lease_ms bigint,
    tickets_since bigint, token_floor bigint, held bytea, generation bigint, system_id bigint, timeline bigint
)
LANGUAGE plpgsql
SET search_path = {s}, pg_catalog, pg_temp
AS $body$
#variable_conflict use_column
DECLARE
    v_held  bytea;
    v_owner bigint;
    v_epoch bigint;
BEGIN
    IF begin_statement(lock_ms, k) <> k.generation AND the_node IS NOT NULL THEN
        verdict := 1;
    ELSIF the_node IS NOT NULL AND NOT renew(the_node) THEN
        verdict := 1;
    ELSE
        -- The take uses the list of held web locks up. What is asked below is true once the row is locked.
        SELECT slots.held, slots.owner, slots.epoch INTO v_held, v_owner, v_epoch
        FROM slots WHERE slot = the_slot FOR UPDATE;
        IF the_node IS NULL AND EXISTS (SELECT FROM nodes) THEN
            verdict := 3;
        ELSIF v_owner IS DISTINCT FROM the_node AND EXISTS (SELECT FROM nodes WHERE incarnation = v_owner) THEN
            verdict := 2;
        ELSIF v_epoch <> seen_epoch THEN
            verdict := 4;
        ELSE
            RETURN QUERY
                UPDATE slots
                SET epoch = slots.epoch + 1, writer = the_writer, owner = the_node, last_seq = 0,
                    -- If this take comes to nothing, the next one has to wait for the owners before it.
                    slot_lease_ms = greatest(
                        CASE WHEN slots.ended AND NOT slots.restored THEN 0 ELSE slots.slot_lease_ms END,
                        (SELECT nodes.slot_lease_ms FROM nodes WHERE incarnation = the_node)),
                    ended = false, held = NULL, longest_lease_ms = 0,
                    -- By the clock of the server, as a new generation leaps by that: nodes have clocks of their own.
                    token_floor = CASE WHEN the_node IS NULL THEN slots.token_floor
                        ELSE greatest(slots.token_floor, floor_by_clock()) END,
                    longest_lease_before_ms = greatest(slots.longest_lease_before_ms, slots.longest_lease_ms)
                FROM fleet
                WHERE slot = the_slot
                RETURNING 0, fleet.key, slots.epoch, slots.clean, slots.restored,
                    slots.longest_lease_before_ms, slots.tickets_since, slots.token_floor, v_held,
                    fleet.generation, fleet.system_id, fleet.timeline;
            RETURN;
        END IF;
    END IF;
    timeline := timeline();
    RETURN NEXT;
END
$body$;

-- One row for each section, in order: 0, it is committed; 1, fenced; 2, out of order, as `expected` comes next.
-- For a node of a fleet then one row with all slots that it owns: 3. Or only one row, and nothing is kept: 4,
-- with the timeline in `expected`, if the node was declared dead, or the generation is another one.
--
-- Sections whose writes are claims, and ends of claims, each of a name of its own, are `s_at_once`: the writes
-- of several of them in a row are one statement, as each statement costs more than a row.
CREATE FUNCTION {s}.commit(
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
    v_state  slots;
    -- The writes that are to be carried out at once, and the numbers of their buckets.
    v_writes integer[] := '{}';
    v_ids    bigint[] := '{}';
    -- The bucket of the last write, and its number.
    v_index  integer := 0;
    v_bucket bigint;
    v_write  integer := 0;
    v_end    integer;
    -- The row of the history that a write has added, and the first and the last of all.
    v_seq    bigint;
    v_oldest bigint;
    v_newest bigint;
    v_first  bigint;
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
    PERFORM 1 FROM slots WHERE slot = ANY (s_slot) ORDER BY slot FOR UPDATE;
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
                ORDER BY nr
                RETURNING seq
            ), made AS (
                INSERT INTO claims (bucket, name, claimant, token, ttl_ms, since, seal, metadata)
                SELECT id, name, w_who[nr], w_token[nr], w_length[nr], w_at[nr], w_seed[nr], w_metadata[nr]
                FROM writes WHERE kind = 'claim'
                ON CONFLICT (bucket, digest) DO UPDATE SET claimant = excluded.claimant,
                    token = excluded.token, ttl_ms = excluded.ttl_ms, since = excluded.since,
                    seal = excluded.seal, metadata = excluded.metadata
            )
            SELECT min(seq), max(seq) INTO v_first, v_seq FROM added;
            v_oldest := coalesce(v_oldest, v_first);
            v_newest := coalesce(v_seq, v_newest);
            v_writes := '{}';
        END IF;
        EXIT WHEN i > v_sections;
        v_end := v_write + s_rows[i];
        SELECT * INTO v_state FROM slots WHERE slot = s_slot[i];
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
            UPDATE slots SET last_seq = last_seq WHERE slot = v_state.slot;
            outcome := 0;
        ELSIF v_state.ended THEN
            outcome := 1;
        ELSIF s_first[i] <> expected THEN
            outcome := 2;
        ELSE
            v_index := 0;
            WHILE v_write < v_end LOOP
                v_write := v_write + 1;
                v_seq := NULL;
                IF w_bucket[v_write] <> v_index THEN
                    v_index := w_bucket[v_write];
                    SELECT id INTO v_bucket FROM buckets
                    WHERE slot = v_state.slot
                        AND digest = sha256(sha256(b_tenant[v_index]) || sha256(b_bucket[v_index]));
                    IF v_bucket IS NULL AND w_kind[v_write] <> 'drop' THEN
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
                        w_why[v_write], name, token, claimant, w_who[v_write], w_metadata[v_write] FROM ended
                    RETURNING seq INTO v_seq;
                WHEN 'lock' THEN
                    -- The owner's earlier lock of the name ends with the new one, if there is one.
                    INSERT INTO history (tenant, bucket, kind, since, at, why, owner, name, mode, token, who)
                    SELECT b_tenant[v_index], b_bucket[v_index], 'offline', since, w_at[v_write],
                        CASE w_word[v_write] WHEN 'exclusive' THEN 'upgraded' ELSE 'downgraded' END, owner,
                        name, mode, token,
                        (SELECT label FROM owners WHERE bucket = v_bucket AND owner = w_owner[v_write])
                    FROM locks
                    WHERE bucket = v_bucket AND digest = sha256(w_name[v_write]) AND owner = w_owner[v_write]
                    RETURNING seq INTO v_seq;
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
                    FROM ended
                    RETURNING seq INTO v_seq;
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
                    IF w_why[v_write] IS NOT NULL THEN
                        INSERT INTO history (tenant, bucket, kind, since, at, why, owner, who)
                        SELECT b_tenant[v_index], b_bucket[v_index], 'owner', since, w_at[v_write],
                            w_why[v_write], owner, label
                        FROM owners WHERE bucket = v_bucket AND owner = w_owner[v_write]
                            AND NOT EXISTS (
                                SELECT FROM voided
                                WHERE bucket = v_bucket AND owner = w_owner[v_write] AND what = 'all')
                        RETURNING seq INTO v_seq;
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
                        'finalized', name, token, claimant FROM ended
                    RETURNING seq INTO v_seq;
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
                        'unassigned', name, token, claimant FROM ended
                    RETURNING seq INTO v_seq;
                WHEN 'needs recovery' THEN
                    UPDATE buckets SET told_in = v_state.epoch WHERE id = v_bucket;
                    UPDATE slots SET clean = false WHERE slot = v_state.slot;
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
                    WHERE slot = v_state.slot;
                WHEN 'forget marks' THEN
                    DELETE FROM floors WHERE slot = v_state.slot;
                    DELETE FROM tenants WHERE slot = v_state.slot;
                WHEN 'longest lease' THEN
                    UPDATE slots SET longest_lease_ms = greatest(longest_lease_ms, w_length[v_write])
                    WHERE slot = v_state.slot;
                WHEN 'recovered' THEN
                    UPDATE slots SET tickets_since = epoch, longest_lease_before_ms = 0, restored = false
                    WHERE slot = v_state.slot;
                WHEN 'stopped clean' THEN
                    UPDATE slots SET ended = true, owner = NULL, clean = true, tickets_since = epoch + 1,
                        restored = false, longest_lease_ms = 0, longest_lease_before_ms = 0
                    WHERE slot = v_state.slot;
                WHEN 'stopped holding' THEN
                    UPDATE slots SET ended = true, owner = NULL, held = w_name[v_write] WHERE slot = v_state.slot;
                WHEN 'erase mark' THEN
                    UPDATE slots SET clean = false WHERE slot = v_state.slot;
                END CASE;
                v_oldest := coalesce(v_oldest, v_seq);
                v_newest := coalesce(v_seq, v_newest);
            END LOOP;
            UPDATE slots SET last_seq = s_last[i] WHERE slot = v_state.slot;
            outcome := 0;
        END IF;
        v_write := v_end;
        RETURN NEXT;
    END LOOP;
    outcome := 3;
    owned := ARRAY(SELECT slot FROM slots WHERE owner = the_node ORDER BY slot);
    RETURN NEXT;
    -- The oldest rows go once in a thousand, those that another commit deletes at the moment excepted. A write
    -- adds one at most.
    IF (v_oldest - 1) / 1000 <> v_newest / 1000 THEN
        DELETE FROM history WHERE seq IN (
            SELECT seq FROM history WHERE seq <= v_newest - history_rows
            ORDER BY seq LIMIT v_newest - v_oldest + 2000 FOR UPDATE SKIP LOCKED);
    END IF;
END
$body$;
