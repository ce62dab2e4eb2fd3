package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Would catch: a certificate that was renewed under its old name and that a
// reload takes for the old one.
func TestDigestFollowsTheFiles(t *testing.T) {
	folder := t.TempDir()
	ca := filepath.Join(folder, "ca.pem")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(ca, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := func() (with, without string) {
		t.Helper()
		path := filepath.Join(folder, "pawl.yaml")
		text := fmt.Sprintf(`
destinations:
  - { name: a, type: https, url: "https://a", ca: %q }
  - { name: b, type: https, url: "https://b" }
`, ca)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, report := Load([]string{path}, testOptions())
		if err := report.Err(); err != nil {
			t.Fatal(err)
		}
		return c.Destinations[0].Digest, c.Destinations[1].Digest
	}
	write("old")
	old, none := load()
	if old == "" || none != "" {
		t.Errorf("digests %q with a file and %q without", old, none)
	}
	if same, _ := load(); same != old {
		t.Error("the digest changes by itself")
	}
	write("new")
	if fresh, _ := load(); fresh == old {
		t.Error("the digest is the same though the file is another")
	}
}

func TestDigestOfEachFile(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	type pair struct {
		Cert string `yaml:"cert" path:"read"`
		Key  string `yaml:"key" path:"read"`
		Out  string `yaml:"out" path:"file"`
	}
	type settings struct {
		TLS *pair `yaml:"tls"`
	}
	ab, c := file("ab", "ab"), file("c", "c")
	a, bc := file("a", "a"), file("bc", "bc")
	if digest(&settings{&pair{Cert: ab, Key: c}}) == digest(&settings{&pair{Cert: a, Key: bc}}) {
		t.Error("what moves from one file to the next is no change")
	}
	if digest(&settings{&pair{Cert: ab}}) == digest(&settings{&pair{Key: ab}}) {
		t.Error("another field is no change")
	}
	for _, none := range []any{nil, &settings{}, &settings{&pair{Out: ab}}} {
		if d := digest(none); d != "" {
			t.Errorf("%+v has the digest %s", none, d)
		}
	}
	if digest(&settings{&pair{Cert: filepath.Join(folder, "gone")}}) == "" {
		t.Error("a missing file is no file")
	}
}
