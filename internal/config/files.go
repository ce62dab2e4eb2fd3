package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/setting"
)

// The bounds of what is read. A configuration written by people is far below
// them; one made by a program that goes wrong must not take the machine down.
const (
	// MaxFileBytes is the largest file: about 40,000 destinations.
	MaxFileBytes = 4 << 20
	// MaxFiles is how many files a configuration may have.
	MaxFiles = 1000
)

// file is one file of the configuration.
type file struct {
	path string // as it was named, for messages and for relative paths
	text string
	root *yaml.Node // the top mapping; nil where the file is empty or broken
	from []int      // where each line begins in text
}

// line returns a line of the text, from 1.
func (f *file) line(n int) string {
	if n < 1 || n > len(f.from) {
		return ""
	}
	end := len(f.text)
	if n < len(f.from) {
		end = f.from[n]
	}
	return f.text[f.from[n-1]:end]
}

// add reads a file, or every file of a folder.
func (l *loader) add(path string) {
	info, err := os.Stat(path)
	if err != nil {
		l.unreadable(path, err)
		return
	}
	if !info.IsDir() {
		l.addFile(path)
		return
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		l.unreadable(path, err)
		return
	}
	found := 0
	for _, e := range entries { // sorted by name
		name := e.Name()
		if ext := filepath.Ext(name); (ext != ".yaml" && ext != ".yml") || strings.HasPrefix(name, ".") {
			continue
		}
		// A link counts as what it points to: mounted settings are links.
		full := filepath.Join(path, name)
		if info, err := os.Stat(full); err == nil && info.IsDir() {
			continue
		}
		found++
		l.addFile(full)
	}
	if found == 0 {
		l.errorf(&file{path: path}, nil, "no *.yaml or *.yml file in this folder")
	}
}

// unreadable reports a path that can't be opened, without its name twice.
func (l *loader) unreadable(path string, err error) {
	f := &file{path: path}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		l.errorf(f, nil, "no such file; name the configuration with -c")
		return
	}
	l.errorf(f, nil, "can't be read: %v", err)
}

// addFile reads a file that was not read before, and what it includes.
func (l *loader) addFile(path string) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		l.unreadable(path, err)
		return
	}
	if _, again := l.seen[real]; again {
		return // named twice, or a cycle of includes
	}
	f := &file{path: path}
	if len(l.seen) == MaxFiles {
		l.errorf(f, nil, "more than %d files; join some", MaxFiles)
	}
	if l.seen[real] = struct{}{}; len(l.seen) > MaxFiles {
		return // said once
	}
	text, err := setting.ReadFile(path, MaxFileBytes)
	if err != nil {
		l.unreadable(path, err)
		return
	}
	f.text = strings.TrimPrefix(string(text), "\ufeff") // some editors begin a file with it
	l.files = append(l.files, f)
	l.parse(f)
	l.include(f)
}

// include reads what the file's include lists.
func (l *loader) include(f *file) {
	list := child(f.root, "include")
	if list == nil {
		return
	}
	l.expandEnv(f, list)
	for _, n := range items(list) {
		n = target(n)
		if n.Kind != yaml.ScalarNode || n.Value == "" {
			continue // the decoder reports it
		}
		pattern := f.resolve(n.Value)
		matches, err := filepath.Glob(pattern)
		if err != nil {
			l.errorf(f, n, "bad pattern %q: %v", n.Value, err)
			continue
		}
		if len(matches) == 0 {
			if strings.ContainsAny(n.Value, "*?[") {
				l.warnf(f, n, "no file matches %q", n.Value)
			} else {
				l.errorf(f, n, "no such file: %q", n.Value)
			}
			continue
		}
		slices.Sort(matches)
		for _, m := range matches {
			l.add(m)
		}
	}
}

// checkText reports what YAML would trip over without saying where.
func (l *loader) checkText(f *file) bool {
	f.from = []int{0}
	line, column := 1, 1
	for i := 0; i < len(f.text); {
		r, size := utf8.DecodeRuneInString(f.text[i:])
		at := &yaml.Node{Line: line, Column: column}
		switch {
		case r == utf8.RuneError && size == 1:
			l.errorf(f, at, "the byte 0x%02x is not UTF-8; save the file as UTF-8", f.text[i])
			return false
		case r == 0:
			l.errorf(f, at, "a NUL byte; is this a text file?")
			return false
		case r < ' ' && r != '\n' && r != '\r' && r != '\t', r == 0x7f:
			l.errorf(f, at, "the control character 0x%02x; write it as an escape in double quotes", r)
			return false
		}
		i += size
		if column++; lineBreak(r, f.text[i:]) {
			f.from = append(f.from, i)
			line, column = line+1, 1
		}
	}
	return true
}

// lineBreak says whether a line ends at r, as the YAML parser counts lines:
// the odd ones of YAML 1.1 too.
func lineBreak(r rune, next string) bool {
	switch r {
	case '\n', 0x85, 0x2028, 0x2029:
		return true
	case '\r':
		return !strings.HasPrefix(next, "\n")
	}
	return false
}
