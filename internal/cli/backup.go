package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/httpapi"
	"github.com/pawlhq/pawl/internal/setting"
)

func backupCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the job store while it is in use",
		Long: `Copy the job store to a new file, as of one moment, while pawl runs and works. To
go back to a copy, stop pawl and put it where jobs.store says, without files of
the old one beside it. An existing file is not overwritten.`,
		Example: `  pawl backup /backup/pawl-$(date +%F).db
  pawl backup --state /var/lib/pawl copy.db`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			// The pawl that runs has another working folder.
			file, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
				if err == nil {
					err = errors.New("it exists already")
				}
				return usagef("%s: %w; name a new file", file, err)
			}
			return sh.withStore(c.Context(), refused, func(s storeCalls) error {
				var made httpapi.BackedUp
				if err := s.Do(c.Context(), http.MethodPost, "/v3/backup", httpapi.BackupRequest{File: file}, &made); err != nil {
					return err
				}
				if sh.json {
					return sh.printJSON(made)
				}
				_, err := fmt.Fprintf(sh.out, "%s: %s\n", made.File, setting.Size(made.Bytes))
				return err
			})
		},
	}
}
