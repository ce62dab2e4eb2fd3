package setting

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 2048)), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadFile(path, 2048); len(text) != 2048 || err != nil {
		t.Errorf("a file at its limit: %d bytes, %v", len(text), err)
	}
	for want, err := range map[string]error{
		"read " + path + ": it is larger than 1 KiB":            second(ReadFile(path, 1024)),
		"open " + filepath.Dir(path) + ": it is a folder":       second(ReadFile(filepath.Dir(path), 1024)),
		"open " + path + "b: no such file or directory":         second(ReadFile(path+"b", 1024)),
		"open " + os.DevNull + ": it is no regular file":        second(ReadFile(os.DevNull, 1024)),
		"tls: open " + path + "b: no such file or directory":    second(LoadPair(path+"b", path)),
		"tls: failed to find any PEM data in certificate input": second(LoadPair(path, path)),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }
