package lint

// Catches: an import against layers.txt, a package without a row or a row
// without a package, and a clock, lock, goroutine, context, global random
// source, file or socket inside core/.

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/pawlhq/pawl/"

// root is the repository, seen from this package's folder.
const root = "../.."

// layers reads layers.txt: the allowed imports by package.
func layers(t *testing.T) map[string][]string {
	t.Helper()
	f, err := os.Open("layers.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table := map[string][]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		name, allowed, ok := strings.Cut(line, "->")
		if !ok {
			if strings.TrimSpace(line) != "" {
				t.Errorf("layers.txt: no arrow in %q", line)
			}
			continue
		}
		name = strings.TrimSpace(name)
		if _, dup := table[name]; dup {
			t.Errorf("layers.txt: %s has two rows", name)
		}
		table[name] = strings.Fields(allowed)
	}
	return table
}

// sources returns the parsed Go files of every package below internal/ and
// cmd/, by package, tests left out.
func sources(t *testing.T) (map[string][]*ast.File, *token.FileSet) {
	t.Helper()
	set := token.NewFileSet()
	packages := map[string][]*ast.File{}
	for _, top := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "testdata" {
				return filepath.SkipDir
			}
			if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return nil
			}
			parsed, err := parser.ParseFile(set, file, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, filepath.Dir(file))
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(filepath.ToSlash(rel), "internal/")
			packages[name] = append(packages[name], parsed)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(packages) < 10 {
		t.Fatalf("found only %d packages; the test looks in the wrong place", len(packages))
	}
	return packages, set
}

func TestLayers(t *testing.T) {
	table := layers(t)
	packages, _ := sources(t)
	for name, files := range packages {
		allowed, ok := table[name]
		if !ok {
			t.Errorf("%s has no row in layers.txt", name)
			continue
		}
		for _, f := range files {
			for _, imp := range f.Imports {
				target, err := strconv.Unquote(imp.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				if !permitted(target, allowed) {
					t.Errorf("%s imports %s, which layers.txt does not allow", name, target)
				}
			}
		}
	}
	for name := range table {
		if _, ok := packages[name]; !ok {
			t.Errorf("layers.txt has a row for %s, which is not there", name)
		}
	}
}

// permitted says whether a package with the given row may import target.
func permitted(target string, row []string) bool {
	first, _, _ := strings.Cut(target, "/")
	if own, ok := strings.CutPrefix(target, module); ok {
		target = strings.TrimPrefix(own, "internal/")
	} else if !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(row, func(allowed string) bool {
		if prefix, ok := strings.CutSuffix(allowed, "/..."); ok {
			return target == prefix || strings.HasPrefix(target, prefix+"/")
		}
		ok, err := path.Match(allowed, target)
		return err == nil && ok
	})
}

func TestPermitted(t *testing.T) {
	row := []string{"core/*", "connector", "github.com/a/b", "go.x.io/y/..."}
	for target, want := range map[string]bool{
		"fmt": true, "net/http": true,
		module + "internal/core/retry":     true,
		module + "internal/connector":      true,
		module + "internal/connector/http": false,
		module + "internal/relay":          false,
		"github.com/a/b":                   true,
		"github.com/a/b/c":                 false,
		"go.x.io/y/z/w":                    true,
		"go.x.io/yy":                       false,
	} {
		if got := permitted(target, row); got != want {
			t.Errorf("permitted(%s) = %v, want %v", target, got, want)
		}
	}
}

// impure are the packages that core must not import at all.
var impure = []string{"sync", "context", "os", "net", "net/", "io/fs", "math/rand", "math/rand/v2", "crypto/rand", "runtime", "log", "log/slog", "unsafe"}

// pure are what core may import although impure names its beginning: numbers
// and words without a socket or a lock to wait for.
var pure = []string{"net/http", "sync/atomic"}

// clocks are the functions of package time that look at the clock or wait.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

func TestCoreIsPure(t *testing.T) {
	packages, set := sources(t)
	looked := 0
	for name, files := range packages {
		if !strings.HasPrefix(name, "core/") {
			continue
		}
		looked++
		for _, f := range files {
			for _, problem := range impurities(f, set) {
				t.Error(problem)
			}
		}
	}
	if looked < 7 {
		t.Errorf("looked at %d packages below core/, want all of them", looked)
	}
}

// impurities lists what a file of core touches and should not.
func impurities(f *ast.File, set *token.FileSet) (problems []string) {
	add := func(at token.Pos, what string) {
		problems = append(problems, fmt.Sprintf("%s: core must not touch %s", set.Position(at), what))
	}
	for _, imp := range f.Imports {
		target, err := strconv.Unquote(imp.Path.Value)
		if err != nil || slices.Contains(pure, target) {
			continue
		}
		for _, bad := range impure {
			if target == bad || strings.HasSuffix(bad, "/") && strings.HasPrefix(target, bad) {
				add(imp.Pos(), target)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add(n.Pos(), "goroutines")
		case *ast.ChanType:
			add(n.Pos(), "channels")
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && pkg.Obj == nil && slices.Contains(clocks, n.Sel.Name) {
				add(n.Pos(), "the clock (time."+n.Sel.Name+")")
			}
			if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "http" && strings.HasPrefix(n.Sel.Name, "Default") {
				add(n.Pos(), "sockets (http."+n.Sel.Name+")")
			}
		}
		return true
	})
	return problems
}

func TestImpuritiesAreSeen(t *testing.T) {
	const bad = `package p
import ("time"; "sync"; "os"; "net")
var mu sync.Mutex
func f() { go f(); _ = time.Now(); _ = make(chan int); _, _ = os.Open(""); _, _ = net.Dial("", "") }`
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "bad.go", bad, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := impurities(f, set); len(got) != 6 {
		t.Errorf("saw %d of 6 impurities: %v", len(got), got)
	}
}
