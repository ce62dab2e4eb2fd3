package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
)

// checkKey says why nobody could call the job API of a configuration, or not with
// the admin key that it gives. Nothing is stored: that is storeKey's, once nothing
// can be refused any more.
func (j *Jobs) checkKey(ctx context.Context, c *config.Config) error {
	if j == nil || c.Jobs == nil {
		return nil
	}
	if !c.Jobs.AdminKey.Empty() {
		return aboutGiven(jobserver.CheckGivenKey(ctx, j.store, c.Jobs.AdminKey.Reveal()))
	}
	if c.Jobs.Local() {
		return nil
	}
	have, err := j.store.Keys(ctx)
	if err == nil && len(have) == 0 {
		err = fmt.Errorf("jobs: other machines reach the API at %s and there is no key yet; make one with "+
			"`pawl keys create --name admin --scope admin`, or set %s", c.Jobs.Listen, config.AdminKeyName)
	}
	return err
}

// storeKey stores the admin key that a configuration gives, where it does.
func (j *Jobs) storeKey(ctx context.Context, c *config.Config) error {
	if j == nil || c.Jobs == nil || c.Jobs.AdminKey.Empty() {
		return nil
	}
	return aboutGiven(jobserver.GivenKey(ctx, j.store, c.Jobs.AdminKey.Reveal(), j.store.Now()))
}

func aboutGiven(err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", config.AdminKeyName, err)
	}
	return nil
}

// keyFile is the file in the state folder with the first key.
const keyFile = "pawl.key"

// KeyFile returns the file in a state folder that has the first key; false where
// there is none.
func KeyFile(state string) (file string, there bool) {
	file = filepath.Join(state, keyFile)
	return file, fileThere(file)
}

// firstKey stores the admin key that the configuration gives, or makes one where
// the store has none and only this machine reaches the API. It is the last thing
// of a start that can fail, so that one that fails leaves no key.
func (a *App) firstKey(ctx context.Context, c *config.Config) error {
	if a.jobs == nil {
		return nil
	}
	if !c.Jobs.AdminKey.Empty() || !c.Jobs.Local() {
		return a.jobs.storeKey(ctx, c)
	}
	keys, file := a.jobs.store, a.state.Path(keyFile)
	if err := sameStore(ctx, keys, file, c.Jobs.File); err != nil {
		return err
	}
	secret, err := jobserver.FirstKey(ctx, keys, keys.Now())
	if err != nil || secret == "" {
		return err
	}
	where := fmt.Sprintf("It is in %s too, which only this user can read", file)
	kept := writeKey(file, secret)
	if kept != nil {
		where = fmt.Sprintf("It could not be written to %s (%v): keep it", file, kept)
	}
	// Not over the log, whose readers may be many.
	_, err = fmt.Fprintf(a.opts.Stderr, "pawl: this is the first API key of the job server, shown this once: %s\n"+
		"pawl: its scope is admin. %s. More: pawl keys create\n", secret, where)
	if kept == nil {
		return nil // nobody may be there to read, but the file is
	}
	return err
}

// sameStore refuses a store that has no key beside a file with the first key of one:
// a store that lost its newest part, with the file that it lay in, looks new.
func sameStore(ctx context.Context, keys store.Keys, file, path string) error {
	if !fileThere(file) {
		return nil
	}
	all, err := keys.Keys(ctx)
	if err != nil || len(all) > 0 {
		return err
	}
	return fmt.Errorf("jobs: %s has the first API key of a job store, and the one in %s has no key at all: was %s-wal taken away, or another store put there? "+
		"Put back what was there; where a new store is meant, move %s away", file, path, path, file)
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
