// Package schema checks bodies against a JSON Schema: validate of a route.
//
// The dialect is draft 2020-12 unless the schema's $schema names another that
// the library knows. Formats (date-time, email, uuid and so on) are checked,
// not only noted.
//
// A schema may refer to others ($ref) by paths that stay in its own folder and
// the folders below, symbolic links included. A reference to anything else, a
// URL of the network or a file elsewhere, is an error when the schema is
// loaded, so that a start needs no network and a schema can't read the
// machine's files. The meta-schemas of the drafts are built in.
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// MaxFile is the largest schema file. The largest public ones have 1 MB.
	MaxFile = 4 << 20
	// MaxFiles bounds the files one schema may refer to, itself included.
	MaxFiles = 200
)

// Schema is a loaded schema. Safe for concurrent use.
type Schema struct {
	file string
	pool sync.Pool // of *checker
}

// newSchema compiles the schema of the name, once now, and again where several are
// checked at once: loader gives the same texts each time.
func newSchema(file, name string, loader func() jsonschema.URLLoader) (*Schema, error) {
	first, err := compile(loader(), name)
	if err != nil {
		return nil, err
	}
	s := &Schema{file: file}
	s.pool.New = func() any {
		c, err := compile(loader(), name)
		if err != nil { // it was compiled before, of the same texts
			return nil
		}
		return c
	}
	s.pool.Put(first)
	return s, nil
}

// Load reads and compiles the schema in a file. An error names the file and
// what is wrong in it.
func Load(file string) (*Schema, error) {
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", file, err)
	}
	defer root.Close()
	files := &loader{root: root, texts: map[string][]byte{}}
	start := url.URL{Scheme: scheme, Path: "/" + filepath.Base(file)}
	s, err := newSchema(file, start.String(), func() jsonschema.URLLoader { return files })
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", file, err)
	}
	files.root = nil
	return s, nil
}

// oneLine is the library's text, which has a line for each mistake, on one
// line and with file names as the user wrote them.
func oneLine(err error) string {
	lines := strings.Fields(strings.ReplaceAll(err.Error(), scheme+":///", ""))
	return strings.Join(lines, " ")
}

// scheme is the scheme of the URLs that stand for the folder's files.
const scheme = "schema-folder"

// loader reads the files of one folder tree, each once: later it has what they were.
type loader struct {
	root  *os.Root // nil once all were read
	texts map[string][]byte
}

// Load reads the file that a URL names.
func (l *loader) Load(ref string) (any, error) {
	text, there := l.texts[ref]
	if !there {
		if l.root == nil {
			return nil, errors.New("it was not read when the schema was loaded")
		}
		var err error
		if text, err = l.read(ref); err != nil {
			return nil, err
		}
		l.texts[ref] = text
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(text))
}

func (l *loader) read(ref string) ([]byte, error) {
	u, err := url.Parse(ref)
	if err != nil {
		return nil, err
	}
	if u.Scheme != scheme || u.Host != "" {
		return nil, errors.New("only files in the schema's own folder can be referred to; put a copy there and refer to it by its path (an absolute $id makes paths relative to itself: remove it)")
	}
	if len(l.texts) == MaxFiles {
		return nil, fmt.Errorf("the schema refers to more than %d files", MaxFiles)
	}
	// Not to wait for the writer of a named pipe.
	f, err := l.root.OpenFile(filepath.FromSlash(strings.TrimPrefix(u.Path, "/")), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > MaxFile {
		return nil, fmt.Errorf("the file has more than %d bytes", MaxFile)
	}
	return text, nil
}
