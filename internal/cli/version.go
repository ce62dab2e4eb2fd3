package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/config"
)

func versionCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  pawl version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version  string `json:"version"`
				Revision string `json:"revision,omitzero"`
				Go       string `json:"go"`
			}{version(), revision(), runtime.Version()}
			if sh.json {
				return sh.printJSON(v)
			}
			_, err := fmt.Fprintf(sh.out, "pawl %s (%s)\n", v.Version, v.Go)
			return err
		},
	}
}

func schemaCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration",
		Long: `Print the JSON Schema of the whole configuration, for editors that complete and
check it.`,
		Example: "  pawl schema > pawl.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := config.Schema(sh.kinds)
			if err != nil {
				return err
			}
			_, err = sh.out.Write(text)
			return err
		},
	}
}
