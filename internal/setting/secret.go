package setting

import (
	"fmt"
	"io"
	"log/slog"
	"unique"

	"go.yaml.in/yaml/v4"
)

// Secret is a text that must not be seen. However it is printed, logged or
// marshalled it reads ***; only Reveal gives it out. Two secrets with one text
// are equal.
type Secret struct {
	// Not a string: fmt looks inside, past Format, where a Secret stands in an
	// unexported field or the verb is %w. Of a handle it shows an address.
	value unique.Handle[string]
}

const hidden = "***"

// NewSecret makes a secret of a text.
func NewSecret(s string) Secret {
	if s == "" {
		return Secret{}
	}
	return Secret{unique.Make(s)}
}

// Reveal returns the text. Call it where it is used, and keep it nowhere.
func (s Secret) Reveal() string {
	if s.Empty() {
		return ""
	}
	return s.value.Value()
}

// Empty reports whether there is no text.
func (s Secret) Empty() bool { return s == Secret{} }

// Format writes *** for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// String returns ***.
func (s Secret) String() string { return hidden }

// MarshalText returns ***.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON returns "***".
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MarshalYAML returns ***.
func (s Secret) MarshalYAML() (any, error) { return hidden, nil }

// LogValue returns ***.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// UnmarshalYAML reads the value from a scalar.
func (s *Secret) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("a text is wanted here, best a {{secrets.NAME}}")
	}
	*s = NewSecret(n.Value)
	return nil
}
