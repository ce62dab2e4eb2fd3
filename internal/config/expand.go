package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/setting"
)

// maxSecretBytes is the largest secret file: a private key with its chain fits.
const maxSecretBytes = 64 << 10

// note is what is remembered of a scalar in which something was replaced.
type note struct {
	secret string // the name of the first secret in it; "" for none
	braces string // the name of one whose value would be read as a template
}

// findSecrets reads the `secrets` of whichever file has it, before anything is
// replaced.
func (l *loader) findSecrets() {
	l.secretsEnv = true
	for _, f := range l.files {
		n := child(f.root, "secrets")
		if n == nil {
			continue
		}
		l.expandEnv(f, n)
		if env := child(n, "env"); env != nil {
			l.secretsEnv = !strings.EqualFold(env.Value, "false")
		}
		if dir := child(n, "dir"); dir != nil && dir.Kind == yaml.ScalarNode {
			l.secretDir = f.resolve(dir.Value)
		}
		return
	}
}

// expand replaces {{env.NAME}} and {{secrets.NAME}} in every scalar value
// below n. Aliases are not followed: what they refer to is in the tree too.
func (l *loader) expand(f *file, n *yaml.Node) { l.walk(f, n, l.lookup) }

// expandEnv replaces what is no secret: what is read before it is known where
// secrets come from.
func (l *loader) expandEnv(f *file, n *yaml.Node) {
	l.walk(f, n, func(ref reference) (string, error) {
		if ref.space == spaceSecrets {
			return "", fmt.Errorf("{{secrets.%s}} can't stand here: this is read before any secret", ref.name)
		}
		return l.lookup(ref)
	})
}

func (l *loader) walk(f *file, n *yaml.Node, lookup func(reference) (string, error)) {
	if n == nil {
		return
	}
	switch n.Kind {
	case yaml.ScalarNode:
		l.replace(f, n, lookup)
	case yaml.SequenceNode:
		for _, c := range n.Content {
			l.walk(f, c, lookup)
		}
	case yaml.MappingNode:
		for i := 1; i < len(n.Content); i += 2 {
			l.walk(f, n.Content[i], lookup)
		}
	}
}

// replace fills in the references of one scalar, in one pass: what a value
// brings in is not looked at again.
func (l *loader) replace(f *file, n *yaml.Node, lookup func(reference) (string, error)) {
	if _, done := l.notes[n]; done || !strings.Contains(n.Value, "{{") {
		return
	}
	var b expanded
	var found note
	replaced := 0
	for rest := n.Value; rest != ""; {
		before, after, ok := strings.Cut(rest, "{{")
		b.write(before)
		if !ok {
			break
		}
		inside, tail, closed := strings.Cut(after, "}}")
		ref, is := parseReference(inside)
		if !closed || !is {
			b.write("{{")
			rest = after
			continue
		}
		rest = tail
		value, err := "", ref.err
		if err == nil {
			value, err = lookup(ref)
		}
		switch {
		case err != nil:
			l.report(f, f.at(n), Error, ref.suggestion, err.Error())
		case ref.space == spaceSecrets:
			l.secrets.add(value)
			if found.secret == "" {
				found.secret = ref.name
			}
			if strings.Contains(value, "{{") {
				found.braces = ref.name
			}
			if len(value) < MinScrubbed {
				l.warnf(f, n, "the secret %s is shorter than %d bytes: too short to be hidden in logs", ref.name, MinScrubbed)
			}
		}
		replaced++
		if ref.space == spaceSecrets {
			b.secret(value)
		} else {
			b.write(value)
		}
	}
	if replaced == 0 {
		return
	}
	if found.secret != "" && b.exposes() {
		l.errorf(f, n, "{{secrets.%s}} can't stand inside an expression: one that fails is quoted in logs and dead letters; "+
			"put it outside of the braces", found.secret)
	}
	n.Value = b.text.String()
	l.notes[n] = found
}

// expanded is a scalar's text while its references are filled in, and the same
// text with a mark in place of each secret.
type expanded struct{ text, marked strings.Builder }

// mark stands in no file: checkText refuses it.
const mark = "\x00"

func (e *expanded) write(s string) {
	e.text.WriteString(s)
	e.marked.WriteString(s)
}

func (e *expanded) secret(s string) {
	e.text.WriteString(s)
	e.marked.WriteString(mark)
}

// exposes reports whether a secret went into an expression of a template.
func (e *expanded) exposes() bool {
	t, err := connector.ParseTemplate(e.marked.String())
	return err == nil && slices.ContainsFunc(t.Parts, func(p connector.TemplatePart) bool {
		return strings.Contains(p.Expr, mark)
	})
}

// space is where a reference looks.
type space string

const (
	spaceEnv     space = "env"
	spaceSecrets space = "secrets"
)

// reference is the inside of a {{…}} that is replaced at load time.
type reference struct {
	space       space
	name        string
	fallback    string
	hasFallback presence
	err         error  // what is wrong with it
	suggestion  string // what was probably meant
}

// presence says whether something was written.
type presence string

const (
	absent  presence = "absent"
	present presence = "present"
)

// parseReference reads the inside of braces. It is no reference where it does
// not look like one: templates for a message begin with . or $ and are left
// to the kinds.
func parseReference(inside string) (reference, bool) {
	inside = strings.TrimSpace(inside)
	word, rest, ok := strings.Cut(inside, ".")
	if !ok || word == "" || strings.Trim(strings.ToLower(word), "abcdefghijklmnopqrstuvwxyz") != "" {
		return reference{}, false
	}
	r := reference{space: space(word)}
	switch r.space {
	case spaceEnv:
		name, fallback, has := strings.Cut(rest, ":")
		if r.name = strings.TrimSpace(name); has {
			r.fallback, r.hasFallback = fallback, present
		}
	case spaceSecrets:
		r.name = rest
	default:
		near := nearest.To(word, []string{string(spaceEnv), string(spaceSecrets)})
		if near == "" {
			return reference{}, false
		}
		r.suggestion = "{{" + near + "." + rest + "}}"
		r.err = fmt.Errorf("unknown reference {{%s}}", inside)
		return r, true
	}
	if !plainName(r.name) {
		r.err = fmt.Errorf("bad name in {{%s}}: letters, digits, _ - and . are allowed, beginning with a letter or _", inside)
	}
	return r, true
}

// plainName holds names to what can be no path: no slash, no leading dot.
func plainName(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '-' && r != '.' && (r < '0' || r > '9')) {
			return false
		}
	}
	return true
}

// lookup returns what a reference stands for.
func (l *loader) lookup(r reference) (string, error) {
	switch r.space {
	case spaceEnv:
		value, set := l.opts.LookupEnv(r.name)
		if r.hasFallback == present && value == "" {
			return r.fallback, nil // as the shell's ${NAME:-default}
		}
		if !set {
			return "", fmt.Errorf("the environment variable %s is not set; set it or give a default: {{env.%s:…}}", r.name, r.name)
		}
		return value, nil
	case spaceSecrets:
		return l.secret(r.name)
	}
	return "", fmt.Errorf("unknown reference {{%s.%s}}", r.space, r.name)
}

// missingSecret says that a secret is in no place that is looked at.
type missingSecret struct{ text string }

func (e missingSecret) Error() string { return e.text }

// secret looks a secret up in the environment, then in the folder.
func (l *loader) secret(name string) (string, error) {
	if l.secretsEnv {
		if v, ok := l.opts.LookupEnv(name); ok && v != "" {
			return v, nil
		}
	}
	if l.secretDir == "" {
		if l.secretsEnv {
			return "", missingSecret{fmt.Sprintf("the secret %s is not in the environment, and no secrets.dir is set", name)}
		}
		return "", missingSecret{fmt.Sprintf("the secret %s has nowhere to come from: set secrets.env or secrets.dir", name)}
	}
	path := filepath.Join(l.secretDir, name)
	read, err := setting.ReadFile(path, maxSecretBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		where := "not "
		if l.secretsEnv {
			where = "neither in the environment nor "
		}
		return "", missingSecret{fmt.Sprintf("the secret %s is %sin %s", name, where, l.secretDir)}
	case err != nil:
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return "", fmt.Errorf("the secret %s in %s can't be read: %w", name, l.secretDir, err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(read), "\n"), "\r")
	if text == "" {
		return "", fmt.Errorf("the secret %s in %s is empty", name, l.secretDir)
	}
	return text, nil
}
