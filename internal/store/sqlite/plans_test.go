package sqlite

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/store"
)

// These tests would catch a statement that scans, or sorts: fast in every test, slow
// in the field. Each statement of the package finds its rows by an index, however
// many there are of others, and a new one is missed until its plan is written here.

const (
	attemptsBy = "SEARCH attempt USING INDEX attempt_job (seq=?)"
	attemptAt  = "SEARCH attempt USING INTEGER PRIMARY KEY (rowid=?)"
	runningOf  = "SEARCH running USING INTEGER PRIMARY KEY (rowid=?)"
	markOf     = "SEARCH mark USING INTEGER PRIMARY KEY (rowid=?)"
	jobOf      = "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"
	jobJ       = "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"
	jobAndAll  = jobJ + "\nSEARCH l USING INTEGER PRIMARY KEY (rowid=?)\nSEARCH p USING INTEGER PRIMARY KEY (rowid=?)"
	unnamed    = "CORRELATED SCALAR SUBQUERY 1\nSEARCH p USING COVERING INDEX policy_input (input=?)\n" +
		"CORRELATED SCALAR SUBQUERY 2\nSEARCH p USING COVERING INDEX policy_output (output=?)"
	idsOf = "LIST SUBQUERY 1\nSCAN json_each VIRTUAL TABLE INDEX 1:"
)

// inserts find nothing, and what moves transactions and files has no plan.
var inserts = []string{
	sqlTally, sqlIdemNew, sqlLaneNew, sqlJobNew, sqlReadyNew, sqlPolicyNew, sqlAttempt, sqlLogNew, sqlPause, sqlAddKey, sqlBrought,
	sqlCircuit, sqlDefinitionNew, sqlEvent, sqlEventsGoneSet, sqlReaderNew, sqlReplayNew, sqlSalt, sqlSchemaNew, sqlUniqueNew, sqlLeftoverNew,
	sqlBegin, sqlCommit, sqlRollback, sqlCheckpoint, sqlWALSize,
}

var plans = map[string]string{
	// Claims, reports and what each transaction writes.
	sqlCount:    markOf,
	sqlCommits:  markOf,
	sqlMark:     markOf,
	sqlIdem:     "SEARCH i USING PRIMARY KEY (key=?)\n" + jobJ,
	sqlPolicyOf: "SEARCH policy USING COVERING INDEX sqlite_autoindex_policy_1 (hash=?)",
	sqlPolicy:   "SEARCH policy USING INTEGER PRIMARY KEY (rowid=?)",
	sqlHeads:    "SEARCH ready USING PRIMARY KEY (lane=?)",
	sqlTake:     "SEARCH ready USING PRIMARY KEY (lane=? AND (run_at,seq)<(?,?))",
	sqlTaken:    "SEARCH ready USING PRIMARY KEY (lane=? AND (run_at,seq)<(?,?))",
	sqlEnded:    runningOf,
	sqlStart:    runningOf,
	sqlHeard:    runningOf,
	sqlLogCut:   runningOf,
	sqlSettled: "SEARCH a USING INDEX attempt_job (seq=? AND number=?)\n" + jobJ +
		"\nSEARCH l USING INTEGER PRIMARY KEY (rowid=?)",
	sqlHandBackOld: "SEARCH attempt USING INDEX attempt_job (seq=? AND number=?)",
	sqlHandBack:    "SEARCH attempt USING INDEX attempt_job (seq=? AND number=?)\nCORRELATED SCALAR SUBQUERY 1\nSEARCH log USING PRIMARY KEY (seq=? AND attempt=?)",
	sqlLogOld:      "SEARCH log USING PRIMARY KEY (seq=? AND attempt=?)",
	sqlLogSize:     "SEARCH log USING PRIMARY KEY (seq=? AND attempt=?)",
	sqlLogHas:      "SEARCH log USING PRIMARY KEY (seq=? AND attempt=? AND n=?)",
	sqlLaneGone:    "SEARCH lane USING INTEGER PRIMARY KEY (rowid=?)",
	sqlTallyGone:   "SEARCH tally USING INTEGER PRIMARY KEY (rowid=?)",
	sqlResume:      "SEARCH pause USING PRIMARY KEY (kind=? AND name=?)",
	sqlUnique:      "SEARCH u USING PRIMARY KEY (queue=? AND task=? AND key=?)\n" + jobJ,
	sqlUniqueGone:  "SEARCH uniq USING COVERING INDEX sqlite_autoindex_uniq_1 (seq=?)",
	sqlCircuitGone: "SEARCH circuit USING PRIMARY KEY (endpoint=?)",

	// By hand.
	sqlHandJob:       jobOf,
	sqlHandLast:      attemptsBy,
	sqlReadyAt:       "SEARCH ready USING PRIMARY KEY (lane=? AND run_at=? AND seq=?)",
	sqlReadyGone:     "SEARCH ready USING PRIMARY KEY (lane=? AND run_at=? AND seq=?)",
	sqlReadyHead:     "SEARCH ready USING PRIMARY KEY (lane=?)",
	sqlCancel:        runningOf,
	sqlBringBack:     attemptAt,
	sqlBringBackNote: attemptAt,
	sqlBringBackJob:  jobOf,
	sqlLeftover:      "SCAN leftover",
	sqlLeftoverGone:  "SEARCH leftover USING INTEGER PRIMARY KEY (rowid=?)",

	// Replays.
	sqlReplay:     "SEARCH replay USING INDEX sqlite_autoindex_replay_1 (id=?)",
	sqlReplaySet:  "SEARCH replay USING INDEX sqlite_autoindex_replay_1 (id=?)",
	sqlReplayOpen: "SEARCH replay USING COVERING INDEX replay_state (state=?)",
	sqlReplaysRun: "SEARCH replay USING INDEX replay_state (state=?)",
	sqlReplaysOld: "SEARCH replay USING COVERING INDEX replay_state (state=? AND rowid<?)\nSCALAR SUBQUERY 1\nSEARCH replay",
	sqlReplayN:    "SEARCH replay USING COVERING INDEX sqlite_autoindex_replay_1 (id=?)",
	sqlReplays:    "SEARCH replay USING INTEGER PRIMARY KEY (rowid<?)",
	sqlReplayDead: "SEARCH a USING COVERING INDEX attempt_failed (seq>?)\n" + jobJ,
	sqlReplayJobs: "SEARCH job USING INTEGER PRIMARY KEY (rowid>?)",
	sqlBroughtBy:  "SEARCH brought USING INTEGER PRIMARY KEY (rowid=?)",
	sqlLaneKey:    "SEARCH lane USING INTEGER PRIMARY KEY (rowid=?)",

	// Events.
	sqlEvents:        "SEARCH event USING INTEGER PRIMARY KEY (rowid>?)",
	sqlEventLast:     markOf,
	sqlEventsGone:    "SEARCH meta USING PRIMARY KEY (name=?)",
	sqlEventOldAt:    "SCAN event",
	sqlEventsOldLast: "CO-ROUTINE (subquery-1)\nSCAN event\nSEARCH (subquery-1)",
	sqlEventsOld:     "SEARCH event USING INTEGER PRIMARY KEY (rowid<?)",
	sqlReader:        "SEARCH reader USING PRIMARY KEY (name=?)",
	sqlReaderGone:    "SEARCH reader USING PRIMARY KEY (name=?)",
	sqlMade:          jobOf,
	sqlTrace:         jobOf,

	// Definitions, schemas and facts.
	sqlDefinition:     "SEARCH definition USING PRIMARY KEY (kind=? AND name=?)",
	sqlDefinitionGone: "SEARCH definition USING PRIMARY KEY (kind=? AND name=?)",
	sqlDefinitions:    "SEARCH definition USING PRIMARY KEY (kind=? AND name>?)",
	sqlDefinitionSize: "SEARCH definition USING PRIMARY KEY (kind=?)",
	sqlSchema:         "SEARCH schema USING PRIMARY KEY (hash=?)",
	sqlSchemaPutAt:    "SEARCH schema USING PRIMARY KEY (hash=?)",
	sqlSchemaAgain:    "SEARCH schema USING PRIMARY KEY (hash=?)",
	sqlSchemaGone:     "SEARCH schema USING PRIMARY KEY (hash=?)\n" + unnamed,
	sqlSchemasUnused:  "SEARCH schema USING COVERING INDEX schema_put (put_at<?)\n" + unnamed,
	sqlSchemaSize:     "SCAN schema USING COVERING INDEX schema_put",
	sqlAnySchema:      "SCAN schema USING COVERING INDEX schema_put",
	sqlOldest: "SEARCH t USING INTEGER PRIMARY KEY (rowid>?)\nSEARCH l USING INTEGER PRIMARY KEY (rowid=?)\n" +
		"CORRELATED SCALAR SUBQUERY 1\nSEARCH r USING PRIMARY KEY (lane=?)",
	sqlMeta: "SEARCH meta USING PRIMARY KEY (name=?)",

	// A start.
	sqlLoadMark:     markOf,
	sqlLoadLanes:    "SCAN l\nSEARCH t USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN\nCORRELATED SCALAR SUBQUERY 1\nSEARCH r USING PRIMARY KEY (lane=?)",
	sqlLoadRunning:  "SCAN running",
	sqlLoadPauses:   "SCAN pause",
	sqlLoadCircuits: "SCAN circuit",
	sqlUniqueAny:    "SCAN CONSTANT ROW\nSCALAR SUBQUERY 1\nSCAN uniq",
	sqlBroughtAny:   "SCAN CONSTANT ROW\nSCALAR SUBQUERY 1\nSCAN brought",
	sqlWhatIs:       "SCAN CONSTANT ROW\nSCALAR SUBQUERY 1\nSCAN pragma_application_id VIRTUAL TABLE INDEX 0:\nSCALAR SUBQUERY 2\nSCAN sqlite_master",
	sqlFreePages:    "SCAN pragma_freelist_count VIRTUAL TABLE INDEX 0:",

	// Readers and upkeep.
	sqlJob:             jobAndAll,
	sqlContents:        jobJ,
	sqlContentsErrors:  jobJ + "\nCORRELATED SCALAR SUBQUERY 1\nSEARCH a USING INDEX attempt_error (seq=?)",
	sqlStandingRunning: runningOf,
	sqlStandingLast:    attemptsBy,
	sqlStandingDue:     attemptsBy,
	sqlStandingError:   "SEARCH attempt USING INDEX attempt_error (seq=?)",
	sqlAttempts:        attemptsBy,
	sqlAttemptRunning:  runningOf,
	sqlLogs:            "SEARCH log USING PRIMARY KEY (seq=? AND attempt=?)",
	sqlLogsEnd:         "SEARCH attempt USING INDEX attempt_job (seq=? AND number=?)",
	sqlLogsRun:         runningOf,
	sqlListJobs:        "SEARCH job USING INTEGER PRIMARY KEY (rowid<?)",
	sqlListFailed:      "SEARCH a USING COVERING INDEX attempt_failed (seq<?)\n" + jobJ,
	sqlListRunning:     "SEARCH r USING INTEGER PRIMARY KEY (rowid<?)\n" + jobJ,
	sqlListNext:        "SEARCH job USING INTEGER PRIMARY KEY (rowid>?)",
	sqlListLast:        "SEARCH job",
	// By lanes, of which it looks at a bounded number.
	sqlListLanes:   "SCAN l\nSEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
	sqlListLanesOf: "SEARCH l USING COVERING INDEX sqlite_autoindex_lane_1 (queue=?)\nSEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
	sqlListLane:    "SEARCH l USING INTEGER PRIMARY KEY (rowid=?)\nSEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
	sqlCounts:      "SEARCH t USING INTEGER PRIMARY KEY (rowid>?)\nSEARCH l USING INTEGER PRIMARY KEY (rowid=?)",
	// All of what there is, which the caller asked for.
	sqlKeys: "SCAN api_key",

	sqlKeyHash:   "SEARCH api_key USING INDEX sqlite_autoindex_api_key_3 (hash=?)",
	sqlKeyName:   "SEARCH api_key USING INDEX sqlite_autoindex_api_key_2 (name=?)",
	sqlKeyID:     "SEARCH api_key USING INDEX sqlite_autoindex_api_key_1 (id=?)",
	sqlRevokeKey: "SEARCH api_key USING INDEX sqlite_autoindex_api_key_1 (id=?)",

	sqlAddLetter:      "SCAN CONSTANT ROW\nSCALAR SUBQUERY 1\nSEARCH letter USING COVERING INDEX sqlite_autoindex_letter_1 (id=?)",
	sqlMarkLetters:    "SEARCH letter USING INDEX sqlite_autoindex_letter_1 (id=?)\n" + idsOf,
	sqlSettledLetters: "SEARCH letter USING INDEX letter_settled (at<?)",
	sqlRemoveLetter:   "SEARCH letter USING INTEGER PRIMARY KEY (rowid=?)",
	sqlLastLetter:     "SEARCH letter",

	sqlPolicyList:    "SEARCH policy USING INTEGER PRIMARY KEY (rowid>?)",
	sqlPolicyUse:     "SEARCH job USING INTEGER PRIMARY KEY (rowid>?)",
	sqlPolicyGone:    "SEARCH policy USING INTEGER PRIMARY KEY (rowid=?)",
	sqlRetain:        "SEARCH attempt USING INTEGER PRIMARY KEY (rowid>?)",
	sqlRetainLast:    "SEARCH attempt USING COVERING INDEX attempt_job (seq=?)",
	sqlRetainJob:     "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)",
	sqlRetainAttempt: "SEARCH attempt USING INTEGER PRIMARY KEY (rowid=?)\nLIST SUBQUERY 1\nSEARCH attempt USING COVERING INDEX attempt_job (seq=?)",
	sqlRetainEnd:     attemptAt,
	sqlRetainLog:     "SEARCH log USING PRIMARY KEY (seq=? AND attempt=? AND n=?)\nLIST SUBQUERY 2\nSEARCH log USING PRIMARY KEY (seq=?)",
	sqlRetainKey:     "SEARCH idem USING PRIMARY KEY (key=?)",
	sqlPolicyCount:   "CO-ROUTINE (subquery-1)\nSCAN policy USING COVERING INDEX sqlite_autoindex_policy_1\nSCAN (subquery-1)",
}

// letterPlans are those of the statements that letterWhere makes.
var letterPlans = map[*store.LetterFilter]string{
	{Destination: "d"}:                        "SEARCH letter USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
	{State: store.LetterOpen, Reason: "lost"}: "SEARCH letter USING INDEX letter_open (place>? AND place<?)",
	{IDs: []string{"x"}, State: store.LetterPurged}: "SEARCH letter USING INTEGER PRIMARY KEY (rowid=?)\n" +
		"LIST SUBQUERY 4\nMERGE (UNION)\nLEFT\nSEARCH letter USING COVERING INDEX sqlite_autoindex_letter_1 (id=?)\n" + idsOf +
		"\nUSE TEMP B-TREE FOR ORDER BY\nRIGHT\nSEARCH letter USING COVERING INDEX letter_message (message_id=?)\n" +
		"LIST SUBQUERY 3\nSCAN json_each VIRTUAL TABLE INDEX 1:\nUSE TEMP B-TREE FOR ORDER BY",
}

// scans are the statements that go through a table, or sort, and what bounds them.
var scans = map[string]string{
	sqlEventOldAt:    "its LIMIT",
	sqlEventsOldLast: "its LIMIT",
	sqlSchemaSize:    "maxSchemas",
	sqlAnySchema:     "its LIMIT",
	sqlLeftover:      "its LIMIT",
	sqlPolicyCount:   "its LIMIT",
	sqlListLanes:     "its LIMIT",
	sqlUniqueAny:     "the first row",
	sqlBroughtAny:    "the first row",
	sqlLoadLanes:     "a start, by lanes",
	sqlLoadRunning:   "a start, by what runs",
	sqlLoadPauses:    "maxPauses",
	sqlLoadCircuits:  "a start, by endpoints",
	sqlWhatIs:        "the tables",
	sqlFreePages:     "one row",
	sqlKeys:          "all keys, which the caller asked for",
	sqlAddLetter:     "a constant row",
	sqlMarkLetters:   "the ids that are named",
}

func planOf(t *testing.T, s *Store, text string) string {
	t.Helper()
	var plan []string
	err := s.readers.use(t.Context(), func(c *conn) error {
		return c.each("EXPLAIN QUERY PLAN "+text, func(r *row) error { plan = append(plan, r.text(3)); return nil }, nulls(text)...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "\n")
}

// nulls are arguments for a statement that is not run.
func nulls(text string) []any { return make([]any, strings.Count(text, "?")) }

func TestPlans(t *testing.T) {
	s := testStore(t, Options{})
	all := maps.Clone(plans)
	for _, text := range inserts {
		all[text] = ""
	}
	for f, want := range letterPlans {
		where, _, err := letterWhere(*f)
		if err != nil {
			t.Fatal(err)
		}
		all[selectLetters+where+" ORDER BY place LIMIT +?"] = want
	}
	for text := range scans {
		if _, there := all[text]; !there {
			t.Errorf("%s has no plan", text)
		}
	}
	for text, want := range all {
		got := planOf(t, s, text)
		if got != want {
			t.Errorf("%s\n got %q\nwant %q", text, got, want)
		}
		_, said := scans[text]
		if goes := strings.Contains(got, "SCAN") || strings.Contains(got, "TEMP B-TREE"); goes != said && !strings.HasPrefix(text, selectLetters) {
			t.Errorf("%s\ngoes through a table, or sorts: %t; said so: %t", text, goes, said)
		}
	}
}

// Each statement is a constant, or variable, of the package whose name begins with
// sql, and has its plan above; no other text is one.
func TestEveryStatementHasItsPlan(t *testing.T) {
	files := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	planned, statements := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if name == "plans_test.go" {
			ast.Inspect(file, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && isStatement(id.Name) {
					planned[id.Name] = true
				}
				return true
			})
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		named := map[*ast.BasicLit]bool{}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range decl.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				for _, id := range v.Names {
					if isStatement(id.Name) {
						statements[id.Name] = true
					}
				}
				ast.Inspect(v, func(n ast.Node) bool {
					if lit, ok := n.(*ast.BasicLit); ok {
						named[lit] = true
					}
					return true
				})
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || named[lit] {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, verb := range []string{"SELECT ", "INSERT ", "UPDATE ", "DELETE ", "REPLACE ", "WITH "} {
				if strings.HasPrefix(strings.TrimSpace(text), verb) {
					t.Errorf("%s: a statement without a name: %s", files.Position(lit.Pos()), text)
				}
			}
			return true
		})
	}
	for _, name := range slices.Sorted(maps.Keys(statements)) {
		if !planned[name] {
			t.Errorf("%s has no plan", name)
		}
	}
	if len(statements) < 100 {
		t.Errorf("%d statements: the test does not find them", len(statements))
	}
}

func isStatement(name string) bool {
	return len(name) > 3 && strings.HasPrefix(name, "sql") && name[3] >= 'A' && name[3] <= 'Z'
}
