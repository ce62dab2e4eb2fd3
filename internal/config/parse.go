package config

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Bounds of a file's structure.
const (
	// MaxDepth is how deep mappings and lists may stand in each other.
	MaxDepth = 100
	// MaxNodes is how many values a file may have, with what an alias stands
	// for counted each time: a few lines of aliases of aliases are billions.
	MaxNodes = 500_000
)

// parse makes nodes of the file's text.
func (l *loader) parse(f *file) {
	if !l.checkText(f) {
		return
	}
	var stream []yaml.Node
	if err := yaml.Load([]byte(f.text), &stream, yaml.WithUniqueKeys(false), yaml.WithAllDocuments()); err != nil {
		l.syntax(f, err)
		return
	}
	if len(stream) == 0 || len(stream[0].Content) == 0 {
		l.warnf(f, nil, "the file is empty")
		return
	}
	if len(stream) > 1 {
		l.errorf(f, &stream[1], "a second document; a file holds one, so put this one into a file of its own and include it")
		return
	}
	root := stream[0].Content[0]
	m := measurer{sizes: map[*yaml.Node]int{}}
	m.measure(root, 0)
	switch {
	case m.loop != nil:
		l.errorf(f, m.loop, "the alias *%s stands inside what it refers to", m.loop.Value)
	case m.deep != nil:
		l.errorf(f, m.deep, "more than %d levels deep", MaxDepth)
	case m.sizes[root] > MaxNodes:
		l.errorf(f, root, "more than %d values, aliases counted", MaxNodes)
	case isNull(root):
		l.warnf(f, nil, "the file is empty")
	case root.Kind != yaml.MappingNode:
		l.errorf(f, root, "a configuration is a mapping with keys such as sources and destinations, not %s", kindOf(root))
	default:
		f.root = root
	}
}

// syntax reports what the YAML parser says, at its place.
func (l *loader) syntax(f *file, err error) {
	var le *yaml.LoadError
	if !errors.As(err, &le) {
		l.errorf(f, nil, "not YAML: %v", err)
		return
	}
	text := strings.TrimPrefix(le.Message, "yaml: ")
	if le.ContextMsg != "" {
		text += " " + le.ContextMsg
	}
	mark := le.Mark
	if strings.TrimSpace(f.line(mark.Line)) == "" && le.ContextMark.Line > 0 {
		mark = le.ContextMark // the end of the file: what was not closed says more
	}
	at := &yaml.Node{Line: mark.Line, Column: mark.Column}
	if at.Line <= 0 {
		at = nil
	}
	if at != nil && strings.HasPrefix(strings.TrimLeft(f.line(at.Line), " "), "\t") {
		text = "a tab at the beginning of a line; YAML wants spaces"
	}
	l.errorf(f, at, "not YAML: %s", text)
}

// measurer counts a tree before anything walks it, so that every later walk
// is known to end, and soon.
type measurer struct {
	sizes map[*yaml.Node]int // 0 while it is being measured
	loop  *yaml.Node         // an alias inside what it refers to
	deep  *yaml.Node
}

func (m *measurer) measure(n *yaml.Node, depth int) int {
	if depth > MaxDepth {
		if m.deep == nil {
			m.deep = n
		}
		return 1
	}
	size, known := m.sizes[n]
	if known && size > 0 {
		return size
	}
	m.sizes[n] = 0
	size = 1
	if n.Kind == yaml.AliasNode {
		if s, known := m.sizes[n.Alias]; known && s == 0 {
			m.loop = n
		} else {
			size += m.measure(n.Alias, depth+1)
		}
	}
	for _, c := range n.Content {
		size = min(size+m.measure(c, depth+1), MaxNodes+1)
	}
	m.sizes[n] = size
	return size
}

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// items returns the values of a list.
func items(n *yaml.Node) []*yaml.Node {
	if n = target(n); n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// entry is a key of a mapping with its value.
type entry struct {
	key, value *yaml.Node
	merged     merged
}

// merged says how an entry came into its mapping.
type merged string

const (
	own    merged = "own"
	lifted merged = "merged" // by <<, which own keys go before
)

// entries returns the keys of a mapping, those merged by << last. Keys that
// are no plain words are left to the caller.
func entries(n *yaml.Node) []entry {
	n = target(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var all []entry
	have := map[string]struct{}{}
	var bases []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.ShortTag() == "!!merge" {
			bases = append(bases, v)
			continue
		}
		all = append(all, entry{k, v, own})
		have[k.Value] = struct{}{}
	}
	for _, b := range bases {
		list := []*yaml.Node{b}
		if t := target(b); t.Kind == yaml.SequenceNode {
			list = t.Content
		}
		for _, base := range list { // the first of several wins
			for _, e := range entries(base) {
				if _, dup := have[e.key.Value]; !dup {
					have[e.key.Value] = struct{}{}
					e.merged = lifted
					all = append(all, e)
				}
			}
		}
	}
	return all
}

// child returns the value of a key, aliases followed, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	for _, e := range entries(n) {
		if e.key.Value == key {
			return target(e.value)
		}
	}
	return nil
}

// keyNode returns the node of a key itself.
func keyNode(n *yaml.Node, key string) *yaml.Node {
	for _, e := range entries(n) {
		if e.key.Value == key {
			return e.key
		}
	}
	return n
}

// find returns the node at a dotted path below n, or the deepest one on the
// way that exists; numbers count list items from 0.
func find(n *yaml.Node, path string) *yaml.Node {
	at := n
	for _, step := range steps(path) {
		next := child(at, step)
		if list := items(at); next == nil && list != nil {
			if i, ok := index(step); ok && i < len(list) {
				next = target(list[i])
			}
		}
		if next == nil {
			return at
		}
		at = next
	}
	return at
}

// steps splits "a.b[2].c" into a, b, 2, c.
func steps(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

func index(s string) (int, bool) {
	n := 0
	for _, r := range s {
		if r < '0' || r > '9' || n > MaxNodes {
			return 0, false
		}
		n = n*10 + int(r-'0')
	}
	return n, s != ""
}

// kindOf names what a node is, for messages.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	}
	return "a text"
}
