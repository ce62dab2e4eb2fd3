-- +goose Up

-- Times are Unix milliseconds of the store's clock. Where a job's row is, is its
-- status: in running, else its last attempt's end, else queued. A queued job has
-- its row in ready.

-- meta holds single values that stay: the store's key, its project.
CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- mark is one row that every commit writes, so that a commit whose answer was
-- lost is known by its number, and nothing that was given out is given out again.
CREATE TABLE mark (
    one     INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    commits INTEGER NOT NULL,
    seq     INTEGER NOT NULL, -- the highest of a job
    attempt INTEGER NOT NULL, -- the highest n of an attempt
    event   INTEGER NOT NULL, -- the highest id of an event
    clock   INTEGER NOT NULL  -- the newest time that was given out
) STRICT;

-- lane is what jobs have in common that gates and workers look at. It goes with
-- the last of its jobs.
CREATE TABLE lane (
    lane     INTEGER NOT NULL PRIMARY KEY,
    queue    TEXT NOT NULL,
    task     TEXT NOT NULL,
    version  TEXT NOT NULL,
    endpoint TEXT NOT NULL, -- '' for none
    priority INTEGER NOT NULL,
    kind     TEXT NOT NULL CHECK (kind IN ('', 'synthetic')),
    UNIQUE (queue, task, version, endpoint, priority, kind)
) STRICT;

-- policy holds each snapshot of a policy once, as long as a job has it and some
-- time more.
CREATE TABLE policy (
    policy INTEGER NOT NULL PRIMARY KEY,
    hash   BLOB NOT NULL UNIQUE,
    body   TEXT NOT NULL,
    input  BLOB, -- the hashes of its schemas, which are kept while it is there
    output BLOB
) STRICT;
CREATE INDEX policy_input ON policy (input) WHERE input IS NOT NULL;
CREATE INDEX policy_output ON policy (output) WHERE output IS NOT NULL;

-- job is written once. Its id is computed from created_at and seq; a seq is
-- never given out again. The big columns stand last, so that the small ones are
-- read without them.
CREATE TABLE job (
    seq        INTEGER NOT NULL PRIMARY KEY,
    lane       INTEGER NOT NULL,
    run_at     INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    policy     INTEGER NOT NULL,
    timeout_ms INTEGER NOT NULL CHECK (timeout_ms > 0),
    key        TEXT,
    uniq       TEXT, -- what no other unfinished job of its queue and task says
    trace      TEXT,
    tags       TEXT, -- a JSON array; NULL for none
    head       BLOB,
    payload    BLOB NOT NULL
) STRICT;

-- ready holds the queued jobs in the order of claims; those due later stand to
-- the right. attempt is the number of the last one, bytes the size of the
-- content; policy and timeout_ms are the job's, so that a claim reads no job.
CREATE TABLE ready (
    lane       INTEGER NOT NULL,
    run_at     INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    charged    INTEGER NOT NULL,
    lost       INTEGER NOT NULL,
    lost_row   INTEGER NOT NULL,
    unreceived INTEGER NOT NULL,
    policy     INTEGER NOT NULL,
    timeout_ms INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    PRIMARY KEY (lane, run_at, seq)
) STRICT, WITHOUT ROWID;

-- running holds the jobs under a lease. The counts are those before this
-- attempt; heard_at is NULL while nothing was reported.
CREATE TABLE running (
    seq         INTEGER NOT NULL PRIMARY KEY,
    lane        INTEGER NOT NULL,
    run_at      INTEGER NOT NULL, -- when it could be claimed
    attempt     INTEGER NOT NULL CHECK (attempt > 0),
    charged     INTEGER NOT NULL,
    lost        INTEGER NOT NULL,
    lost_row    INTEGER NOT NULL,
    unreceived  INTEGER NOT NULL,
    policy      INTEGER NOT NULL,
    timeout_ms  INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    worker      TEXT NOT NULL,
    caller      TEXT NOT NULL, -- who claimed
    claim       TEXT NOT NULL, -- '' for none
    claimed_at  INTEGER NOT NULL,
    started_at  INTEGER,
    heard_at    INTEGER,
    lease_ms    INTEGER NOT NULL CHECK (lease_ms > 0),
    lease_until INTEGER NOT NULL,
    deadline    INTEGER NOT NULL,
    limit_ms    INTEGER NOT NULL CHECK (limit_ms > 0), -- this attempt's timeout; timeout_ms is the job's own
    generation  INTEGER NOT NULL, -- of its endpoint's circuit
    probe       INTEGER NOT NULL CHECK (probe IN (0, 1)),
    cancelled   INTEGER, -- when the job was cancelled, by whom
    canceller   TEXT,
    log_cut     INTEGER NOT NULL DEFAULT 0 CHECK (log_cut IN (0, 1))
) STRICT;

-- attempt is append-only, but that hand-backs of the relay in a row leave the
-- newest alone: how each attempt ended, in the order of the ends. The one that
-- finished the job has its end. The counts all_charged, lost, lost_row
-- and unreceived are the job's after it; charged is whether this one was.
CREATE TABLE attempt (
    n           INTEGER NOT NULL PRIMARY KEY,
    seq         INTEGER NOT NULL,
    number      INTEGER NOT NULL CHECK (number > 0),
    worker      TEXT NOT NULL,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER NOT NULL,
    outcome     TEXT NOT NULL CHECK (outcome IN
        ('succeeded', 'failed', 'timed_out', 'lost', 'unreceived', 'released', 'cancelled')),
    charged     INTEGER NOT NULL CHECK (charged IN (0, 1)),
    all_charged INTEGER NOT NULL,
    lost        INTEGER NOT NULL,
    lost_row    INTEGER NOT NULL,
    unreceived  INTEGER NOT NULL,
    next_run_at INTEGER,
    "end"       TEXT CHECK ("end" IN ('succeeded', 'failed', 'cancelled')),
    finished_at INTEGER, -- when the job was, where it was cancelled before its attempt ended
    was         TEXT CHECK (was IN ('failed')), -- the end that a person took back; its report is still answered so
    reason      TEXT CHECK (reason IN ('exhausted', 'non_retryable', 'output_schema', 'lost', 'uncertain')),
    report      BLOB, -- the hash of the report that ended it
    log_cut     INTEGER NOT NULL DEFAULT 0 CHECK (log_cut IN (0, 1)),
    note        TEXT,
    error       TEXT, -- job.Error as JSON
    result      BLOB,
    CHECK (("end" IS NULL) = (next_run_at IS NOT NULL)),
    CHECK (reason IS NULL OR "end" IS 'failed') -- a check of an endpoint has none
) STRICT;
CREATE UNIQUE INDEX attempt_job ON attempt (seq, number);
CREATE INDEX attempt_error ON attempt (seq, number) WHERE error IS NOT NULL;
CREATE INDEX attempt_failed ON attempt (seq, reason) WHERE "end" = 'failed'; -- a dead letter where it has a reason

-- tally holds how many jobs of a lane are where.
CREATE TABLE tally (
    lane      INTEGER NOT NULL PRIMARY KEY,
    ready     INTEGER NOT NULL,
    running   INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    cancelled INTEGER NOT NULL
) STRICT;

-- idem holds the idempotency keys and the requests that they stand for.
CREATE TABLE idem (
    key  TEXT NOT NULL PRIMARY KEY,
    seq  INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- uniq holds the unique keys of jobs that are not finished.
CREATE TABLE uniq (
    queue TEXT NOT NULL,
    task  TEXT NOT NULL,
    key   TEXT NOT NULL,
    seq   INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (queue, task, key)
) STRICT, WITHOUT ROWID;

-- log holds the lines of attempts; n is the worker's count of them.
CREATE TABLE log (
    seq     INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    level   TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (seq, attempt, n)
) STRICT, WITHOUT ROWID;

-- leftover holds the jobs that were deleted, of which attempts and lines are still to
-- be removed.
CREATE TABLE leftover (
    seq INTEGER NOT NULL PRIMARY KEY
) STRICT;

-- pause holds the gates that are shut by hand.
CREATE TABLE pause (
    kind  TEXT NOT NULL CHECK (kind IN ('queue', 'endpoint')),
    name  TEXT NOT NULL,
    who   TEXT NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- circuit holds the endpoints whose circuit is not closed with nothing counted, or
-- whose rate is used up in part. Times are 0 for none.
CREATE TABLE circuit (
    endpoint    TEXT NOT NULL PRIMARY KEY,
    state       TEXT NOT NULL CHECK (state IN ('closed', 'open', 'half_open')),
    failures    INTEGER NOT NULL,
    generation  INTEGER NOT NULL,
    opened_at   INTEGER NOT NULL,
    retry_at    INTEGER NOT NULL,
    held_until  INTEGER NOT NULL,
    probe_at    INTEGER NOT NULL,
    failed_task TEXT NOT NULL,
    full_at     INTEGER NOT NULL -- when the bucket of its rate is full again
) STRICT, WITHOUT ROWID;

-- event holds what happened, written with what it tells of: the events of a
-- transaction, or a part of them, in one row. last is the highest id in it, and an
-- id is never given out again; at is no earlier than any of them happened.
-- eventblock.go says what body is.
CREATE TABLE event (
    last INTEGER NOT NULL PRIMARY KEY,
    at   INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- replay holds what is done to many jobs, as JSON; brought the jobs that one
-- brought back and that have not ended again.
CREATE TABLE replay (
    n     INTEGER NOT NULL PRIMARY KEY,
    id    TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    body  TEXT NOT NULL
) STRICT;
CREATE INDEX replay_state ON replay (state);
CREATE TABLE brought (
    seq    INTEGER NOT NULL PRIMARY KEY,
    replay TEXT NOT NULL
) STRICT;

-- reader holds how far those have come who read events to the end.
CREATE TABLE reader (
    name TEXT NOT NULL PRIMARY KEY,
    at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- definition holds what people said over the API of queues, tasks, endpoints and
-- subscriptions; schema the JSON Schemas that tasks and jobs name.
CREATE TABLE definition (
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    body       BLOB NOT NULL,
    who        TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE schema (
    hash   BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
    put_at INTEGER NOT NULL, -- when somebody needed it last, about
    body   BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX schema_put ON schema (put_at);

-- api_key holds the hashes of API keys; 0 is never.
CREATE TABLE api_key (
    n          INTEGER NOT NULL PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL UNIQUE,
    hash       BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    scopes     TEXT NOT NULL, -- a JSON array
    queues     TEXT NOT NULL, -- a JSON array; empty is every queue
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER NOT NULL
) STRICT;

-- letter holds the relay's dead letters. AUTOINCREMENT: a reader goes on behind
-- a place, so none is given out again.
CREATE TABLE letter (
    place       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    message_id  TEXT NOT NULL,
    reason      TEXT NOT NULL,
    destination TEXT NOT NULL,
    route       TEXT NOT NULL,
    at          INTEGER NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('open', 'replayed', 'purged')),
    state_at    INTEGER, -- when it left open
    body        BLOB NOT NULL
) STRICT;
CREATE INDEX letter_message ON letter (message_id);
CREATE INDEX letter_open ON letter (place) WHERE state = 'open';
CREATE INDEX letter_settled ON letter (at) WHERE state <> 'open';

INSERT INTO meta (name, value) VALUES
    ('key', randomblob(32)),
    ('project', 'default');
INSERT INTO mark (one, commits, seq, attempt, event, clock) VALUES (1, 0, 0, 0, 0, 0);
