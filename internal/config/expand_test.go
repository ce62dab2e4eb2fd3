package config

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/setting"
)

// loadText loads one file with the text.
func loadText(t testing.TB, text string) (*Config, *Report) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.yaml")
	write(t, path, text)
	return Load([]string{path}, testOptions())
}

func TestExpand(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"plain", "plain"},
		{"{{env.HOST}}", "127.0.0.1"},
		{"a {{ env.HOST }} b {{env.PORT}} c", "a 127.0.0.1 b 8080 c"},
		{"{{env.ABSENT:here}}", "here"},
		{"{{env.ABSENT:}}", ""},
		{"{{env.ABSENT:http://x:1/}}", "http://x:1/"},
		{"{{env.EMPTY:here}}", "here"}, // as the shell's :-
		{"{{env.EMPTY}}", ""},
		{"{{env.HOST:other}}", "127.0.0.1"},
		{"{{secrets.TOKEN}}", testSecret},
		// Templates are the kinds' business.
		{"{{ .id }}", "{{ .id }}"},
		{"{{ $msg.id }}", "{{ $msg.id }}"},
		{"{{ascii_downcase}}", "{{ascii_downcase}}"},
		{"{{", "{{"},
		{"}} {{ env.HOST", "}} {{ env.HOST"},
		{"{{{{env.HOST}}}}", "{{127.0.0.1}}"},
		{"{{ .a }}{{env.PORT}}", "{{ .a }}8080"},
	} {
		cfg, report := loadText(t, fmt.Sprintf("destinations: [ { name: a, type: https, url: 'x://%s' } ]", c.text))
		if cfg == nil {
			t.Errorf("%s: %v", c.text, report.Err())
			continue
		}
		if got := cfg.Destinations[0].Settings.(*testDestination).URL; got != "x://"+c.want {
			t.Errorf("%s became %q, not %q", c.text, got, c.want)
		}
	}
}

// TestExpandOnce makes sure that a value that comes in is not looked at again:
// whoever sets a variable must not read a secret with it.
func TestExpandOnce(t *testing.T) {
	opts := testOptions()
	look := opts.LookupEnv
	opts.LookupEnv = func(name string) (string, bool) {
		if name == "SLY" {
			return "{{secrets.TOKEN}}\nworkers: 1", true
		}
		return look(name)
	}
	path := filepath.Join(t.TempDir(), "pawl.yaml")
	write(t, path, "destinations: [ { name: a, type: https, url: 'x://{{env.SLY}}' } ]")
	c, report := Load([]string{path}, opts)
	if c == nil {
		t.Fatal(report.Err())
	}
	if got := c.Destinations[0].Settings.(*testDestination).URL; got != "x://{{secrets.TOKEN}}\nworkers: 1" {
		t.Errorf("expanded twice: %q", got)
	}
}

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "secrets", "crlf"), "value\r\n")
	write(t, filepath.Join(dir, "secrets", "lines"), "one line\ntwo lines\n\n")
	write(t, filepath.Join(dir, "secrets", "large"), strings.Repeat("x", maxSecretBytes+1))
	write(t, filepath.Join(dir, "secrets", "empty"), "\n")
	write(t, filepath.Join(dir, "outside"), "outside")
	if err := os.Mkdir(filepath.Join(dir, "secrets", "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	load := func(name string) (*Config, *Report) {
		path := filepath.Join(dir, "pawl.yaml")
		write(t, path, fmt.Sprintf("secrets: { dir: secrets }\ndestinations: [ { name: a, type: https, url: 'x://', token: '{{secrets.%s}}' } ]", name))
		return Load([]string{path}, testOptions())
	}
	for name, want := range map[string]string{"crlf": "value", "lines": "one line\ntwo lines\n", "TOKEN": testSecret} {
		c, report := load(name)
		if c == nil {
			t.Errorf("%s: %v", name, report.Err())
			continue
		}
		if got := c.Destinations[0].Settings.(*testDestination).Token.Reveal(); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	for name, want := range map[string]string{
		"large": "larger than 64 KiB", "empty": "is empty", "folder": "is a folder", "absent": "neither in the environment nor in",
		"../outside": "bad name", ".hidden": "bad name", "a/b": "bad name", "": "bad name",
	} {
		if c, report := load(name); c != nil || !strings.Contains(report.Err().Error(), want) {
			t.Errorf("%s: %v", name, report.Problems)
		}
	}
}

func TestRedact(t *testing.T) {
	c, report := loadText(t, `
destinations:
  - { name: a, type: https, url: "x://{{secrets.TOKEN}}", token: a-literal-token, headers: { x: "{{secrets.KEY}}", y: "{{secrets.PIN}}" } }
`)
	if c == nil {
		t.Fatal(report.Err())
	}
	for _, s := range []string{
		"dial " + testSecret + ": refused", "a-literal-token", fmt.Sprintf("%q", multiSecret), "second line of a key", multiSecret,
		"first+line+of+a+key%0Asecond+line+of+a+key",
	} {
		got := c.Secrets.Redact(s)
		noSecret(t, got)
		if !strings.Contains(got, "***") {
			t.Errorf("%q is not redacted: %q", s, got)
		}
	}
	if got := c.Secrets.Redact("nothing of 123 here"); got != "nothing of 123 here" {
		t.Errorf("torn: %q", got)
	}
	if got := (*Redactor)(nil).Redact("x"); got != "x" {
		t.Errorf("a nil redactor says %q", got)
	}
	// However the tree is printed, kinds' secrets stay hidden.
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "token", c.Destinations[0].Settings.(*testDestination).Token)
	fmt.Fprintf(&out, "%+v %#v %v", c.Destinations[0].Settings.(*testDestination).Token, setting.NewSecret(testSecret), c.Destinations[0].Settings.(*testDestination).Headers)
	noSecret(t, out.String())
	if strings.Contains(out.String(), "a-literal-token") {
		t.Errorf("printed: %s", out.String())
	}
}

// TestShortSecretTearsNoWords has secrets that stand in their own warnings.
func TestShortSecretTearsNoWords(t *testing.T) {
	opts := testOptions()
	opts.LookupEnv = func(name string) (string, bool) {
		v, ok := map[string]string{"ONE": "e", "THREE": "the"}[name]
		return v, ok
	}
	path := filepath.Join(t.TempDir(), "pawl.yaml")
	write(t, path, "destinations: [ { name: a, type: https, url: 'x://{{secrets.ONE}}/{{secrets.THREE}}', nosuch: 1 } ]")
	_, report := Load([]string{path}, opts)
	for _, p := range report.Problems {
		if strings.Contains(p.Text(), scrubbed) {
			t.Errorf("torn: %s", p.Text())
		}
	}
	if report.Warnings() < 2 || report.Errors() != 1 {
		t.Errorf("the problems: %v", report.Problems)
	}
}

func TestRedactForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// The mark itself may be in a secret, and would then stay.
		unmarked := func(s string) bool { return !strings.Contains(s, "*") }
		secret := rapid.StringN(MinScrubbed, 40, 80).Filter(unmarked).Draw(t, "secret")
		r := &Redactor{}
		r.add(secret)
		r.seal()
		for _, s := range append(shapes(secret), secret) {
			if len(s) >= MinScrubbed && strings.Contains(r.Redact("a "+s+" b"), s) {
				t.Fatalf("%q shows", s)
			}
		}
	})
}

func TestExcerpt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.String().Draw(t, "line") + strings.Repeat("x", rapid.IntRange(0, 300).Draw(t, "more"))
		text, caret := excerpt(line, rapid.IntRange(-2, 400).Draw(t, "column"))
		if n := len([]rune(text)); n > excerptRunes || caret < 0 || caret > n {
			t.Fatalf("%d characters, caret at %d", n, caret)
		}
		if strings.ContainsAny(text, "\x1b\n\r\x00\x07") {
			t.Fatalf("unsafe: %q", text)
		}
	})
}

// FuzzLoad feeds the loader any file. It must answer, and never with a secret.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/mistakes/*.yaml", "testdata/good/*.yaml", "testdata/good/*/*.y*ml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatal(pattern, err)
		}
		for _, p := range paths {
			text, err := os.ReadFile(p)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	dir := f.TempDir()
	path := filepath.Join(dir, "pawl.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(text, []byte(testSecret)) || bytes.Contains(text, []byte("second line of")) || bytes.Contains(text, []byte("include")) {
			return // a secret that the file itself says may be in its excerpt; other files are not for fuzzing
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c, report := Load([]string{path}, testOptions())
		if (c == nil) != (report.Errors() > 0) {
			t.Fatalf("configuration %v with %d errors", c != nil, report.Errors())
		}
		var out bytes.Buffer
		if err := report.Write(&out, Plain); err != nil {
			t.Fatal(err)
		}
		noSecret(t, out.String())
		for _, p := range report.Problems {
			if p.Message == "" || p.File == "" || strings.ContainsAny(p.String(), "\n\x1b") {
				t.Fatalf("a bad problem: %+v", p)
			}
		}
	})
}
