//go:build unix

package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inTime fails the test when f waits for ever, as for the writer of a pipe. Ten
// seconds are only ever waited for by a test that fails.
func inTime(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for ever")
	}
}

// TestNamedPipesAreRefused puts a pipe that nobody writes to wherever a
// configuration names a file.
func TestNamedPipesAreRefused(t *testing.T) {
	const rest = `
sources: [ { name: web, type: http, listen: "127.0.0.1:80" } ]
routes: [ { name: all, from: [web], to: [a] } ]
`
	const https = "destinations: [ { name: a, type: https, url: 'x://' } ]\n"
	for name, text := range map[string]string{
		"include":     rest + https + "include: [pipe.yaml]",
		"glob":        rest + https + "include: ['p*.yaml']",
		"folder":      rest + https + "include: [.]",
		"secret":      rest + "secrets: { dir: . }\ndestinations: [ { name: a, type: https, url: 'x://', token: '{{secrets.pipe.yaml}}' } ]",
		"schema":      strings.Replace(rest, "to: [a]", "to: [a], validate: { schema: pipe.yaml }", 1) + https,
		"certificate": strings.Replace(rest, ":80\"", ":80\", tls: { cert: pipe.yaml, key: pipe.yaml }", 1) + https,
		"authority":   rest + "destinations: [ { name: a, type: https, url: 'x://', ca: pipe.yaml } ]",
		"admin":       rest + https + "http: { tls: { cert: pipe.yaml, key: pipe.yaml } }",
		"destination": rest + "destinations: [ { name: a, type: file, path: pipe.yaml } ]",
		"itself":      "",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			pipe, path := filepath.Join(dir, "pipe.yaml"), filepath.Join(dir, "pawl.yaml")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if text == "" {
				path = pipe
			}
			inTime(t, func() {
				c, report := Load([]string{path}, testOptions())
				if c != nil || !strings.Contains(report.Err().Error(), "no regular file") {
					t.Errorf("%v", report.Problems)
				}
			})
		})
	}
}
