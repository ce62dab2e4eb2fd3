package config

import (
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/setting"
)

// DefaultFile is read where no file is named.
const DefaultFile = "pawl.yaml"

// Options are what Load needs from outside.
type Options struct {
	// Registry holds the kinds of source and destination. It must be set.
	Registry *connector.Registry
	// CheckExpr says what is wrong with a jq expression; nil checks none.
	CheckExpr func(src string) error
	// CheckSchema says what is wrong with a JSON Schema file, that it can't be
	// read included; nil only looks whether it can be read.
	CheckSchema func(file string) error
	// CheckStore says what is wrong with a store of a type that talks to a server,
	// without talking to it; nil checks none. Its error begins with the key that
	// it is about and a colon, and tells no secret.
	CheckStore func(s Store) error
	// CheckContract says what is wrong with the JSON Schema of a task's contract,
	// which refers to nothing but itself. nil checks none.
	CheckContract func(text []byte) error
	// EventTypes are the types of event that subscriptions may name; nil checks
	// none.
	EventTypes []string
	// LookupEnv reads the environment; nil is os.LookupEnv.
	LookupEnv func(name string) (string, bool)
}

// Load reads the files and folders of paths (DefaultFile where there are none)
// and what they include. Of a folder it takes the *.yaml and *.yml files, not
// those of folders below.
//
// The report is never nil and holds every problem that was found. The
// configuration is nil when one of them is an error.
func Load(paths []string, opts Options) (*Config, *Report) {
	l, paths := newLoader(paths, opts)
	c := l.load(paths)
	report := l.finish()
	if report.Errors() > 0 {
		return nil, report
	}
	return c, report
}

// newLoader returns a loader and the paths that it is to read.
func newLoader(paths []string, opts Options) (*loader, []string) {
	if len(paths) == 0 {
		paths = []string{DefaultFile}
	}
	if opts.LookupEnv == nil {
		opts.LookupEnv = os.LookupEnv
	}
	return &loader{opts: opts, secrets: &Redactor{}, notes: map[*yaml.Node]note{},
		found: map[Severity]int{}, wrong: map[Place]struct{}{}, seen: map[string]struct{}{}, said: map[string]origin{}, written: defaultWritten()}, paths
}

// maxFound is how many errors, and how many warnings, are looked at before a
// report is cut to MaxProblems: enough to sort the first of all files.
const maxFound = 20 * MaxProblems

// loader is the state of one Load.
type loader struct {
	opts     Options
	files    []*file
	seen     map[string]struct{} // real paths of files
	problems []Problem
	found    map[Severity]int
	left     int                // problems beyond maxFound
	wrong    map[Place]struct{} // where errors are
	secrets  *Redactor
	notes    map[*yaml.Node]note // scalars that were expanded

	secretDir  string
	secretsEnv bool

	written      written // but for its lists, which are below
	said         map[string]origin
	sources      []sourceEntry
	routes       []routeEntry
	destinations []destinationEntry
	stores       []storeEntry
	notices      []noticeEntry

	adminKey setting.Secret

	// memberNames lead to the groups that have them.
	sourceNames, destinationNames, memberNames, storeNames names
}

func (l *loader) load(paths []string) *Config {
	for _, p := range paths {
		l.add(p)
	}
	l.findSecrets()
	for _, f := range l.files {
		l.expand(f, f.root)
	}
	for _, f := range l.files {
		l.decodeFile(f)
	}
	l.findAdminKey()
	c := l.build()
	l.check(c)
	c.Secrets = l.secrets
	for _, f := range l.files {
		c.Files = append(c.Files, f.path)
	}
	return c
}

// finish seals the secrets and makes the report, scrubbed.
func (l *loader) finish() *Report {
	l.secrets.seal()
	for i := range l.problems {
		p := &l.problems[i]
		p.File = printable(p.File)
		p.Message = printable(l.secrets.Redact(p.Message))
		p.Suggestion = printable(l.secrets.Redact(p.Suggestion))
		p.Excerpt = l.secrets.Redact(p.Excerpt)
	}
	r := &Report{Problems: l.problems, Left: l.left}
	r.settle()
	return r
}

// at returns the place of a node, or of the file where n is nil.
func (f *file) at(n *yaml.Node) Place {
	if n == nil {
		return Place{File: f.path}
	}
	return Place{File: f.path, Line: n.Line, Column: n.Column}
}

func (l *loader) errorf(f *file, n *yaml.Node, format string, args ...any) {
	l.report(f, f.at(n), Error, "", fmt.Sprintf(format, args...))
}

func (l *loader) warnf(f *file, n *yaml.Node, format string, args ...any) {
	l.report(f, f.at(n), Warning, "", fmt.Sprintf(format, args...))
}

func (l *loader) infof(f *file, n *yaml.Node, format string, args ...any) {
	l.report(f, f.at(n), Info, "", fmt.Sprintf(format, args...))
}

// suggestf reports an error with the nearest of candidates to word.
func (l *loader) suggestf(f *file, n *yaml.Node, word string, candidates []string, format string, args ...any) {
	l.report(f, f.at(n), Error, nearest.To(word, candidates), fmt.Sprintf(format, args...))
}

func (l *loader) report(f *file, at Place, s Severity, suggestion, message string) {
	if s == Error {
		l.wrong[at] = struct{}{}
	}
	// Each severity has its own room, so that no number of warnings can hide an
	// error.
	if l.found[s]++; l.found[s] > maxFound {
		l.left++
		return
	}
	p := Problem{
		File: at.File, Line: at.Line, Column: at.Column,
		Severity: s, Message: message, Suggestion: suggestion,
	}
	if at.Line > 0 {
		p.Excerpt, p.caret = excerpt(f.line(at.Line), at.Column)
	}
	l.problems = append(l.problems, p)
}

// spoiled reports whether the single value n was found wrong already, so that
// what follows from it is not said too.
func (l *loader) spoiled(f *file, n *yaml.Node) bool {
	if n == nil || n.Kind != yaml.ScalarNode && (n.Kind != yaml.MappingNode || n.Style&yaml.FlowStyle == 0) {
		return false
	}
	_, wrong := l.wrong[f.at(n)]
	return wrong
}

// resolve makes a path that stands in f usable from the working folder.
func (f *file) resolve(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(f.path), path)
}
