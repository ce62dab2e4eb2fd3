package setting

import (
	"fmt"
	"io"
	"log/slog"

	"go.yaml.in/yaml/v4"
)

// Secret is a text that must not be seen. However it is printed, logged or
// marshalled it reads ***; only Reveal gives it out.
type Secret struct{ value string }

const hidden = "***"

// NewSecret makes a secret of a text.
func NewSecret(s string) Secret { return Secret{s} }

// Reveal returns the text. Call it where it is used, and keep it nowhere.
func (s Secret) Reveal() string { return s.value }

// Empty reports whether there is no text.
func (s Secret) Empty() bool { return s.value == "" }

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
	s.value = n.Value
	return nil
}
