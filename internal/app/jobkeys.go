package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/jobserver"
)

// givenKey stores the admin key that the configuration gives, where it does.
func (j *Jobs) givenKey(ctx context.Context, c *config.Config) error {
	if c.Jobs.AdminKey.Empty() {
		return nil
	}
	if err := jobserver.GivenKey(ctx, j.store, c.Jobs.AdminKey.Reveal(), j.store.Now()); err != nil {
		return fmt.Errorf("%s: %w", config.AdminKeyName, err)
	}
	return nil
}

// keyFile is the file in the state folder with the first key.
const keyFile = "pawl.key"

// KeyFile returns where in a state folder the first key is kept.
func KeyFile(state string) string { return filepath.Join(state, keyFile) }

// firstKey sees to it that somebody can call the job API: it stores the admin
// key that the configuration gives, or makes one where the store has none and
// only this machine reaches the API.
func (a *App) firstKey(ctx context.Context, c *config.Config) error {
	keys := a.jobs.store
	if !c.Jobs.AdminKey.Empty() {
		return a.jobs.givenKey(ctx, c)
	}
	if !c.Jobs.Local() {
		have, err := keys.Keys(ctx)
		if err == nil && len(have) == 0 {
			err = fmt.Errorf("jobs: other machines reach the API at %s and there is no key yet; make one with "+
				"`pawl keys create --name admin --scope admin`, or set %s", c.Jobs.Listen, config.AdminKeyName)
		}
		return err
	}
	secret, err := jobserver.FirstKey(ctx, keys, keys.Now())
	if err != nil || secret == "" {
		return err
	}
	file := a.state.Path(keyFile)
	where := fmt.Sprintf("It is in %s too, which only this user can read", file)
	if err := writeKey(file, secret); err != nil {
		where = fmt.Sprintf("It could not be written to %s (%v): keep it", file, err)
	}
	// Not over the log, whose readers may be many.
	_, err = fmt.Fprintf(a.opts.Stderr, "pawl: this is the first API key of the job server, shown this once: %s\n"+
		"pawl: its scope is admin. %s. More: pawl keys create\n", secret, where)
	return err
}

// writeKey writes a key to a file that only its owner reads, whole or not at all.
func writeKey(file, secret string) error {
	f, err := os.CreateTemp(filepath.Dir(file), "."+keyFile+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(secret + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
