package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/builtin"
)

// Commands returns the tree of commands, for the reference. It is not for
// running: it has no input, and what its commands print goes nowhere.
func Commands() *cobra.Command {
	return newRoot(&shell{in: strings.NewReader(""), out: io.Discard, err: io.Discard, kinds: builtin.Connectors()})
}
