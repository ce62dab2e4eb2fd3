package config

import (
	"errors"
	"os"

	"github.com/pawlhq/pawl/internal/connector"
)

// FindState returns the state folder that a configuration says, whatever else
// is wrong with it: a command must find the pawl that runs although somebody
// has broken its file since. A configuration that can't be read at all is an
// error.
func FindState(paths []string) (string, error) {
	l, paths := newLoader(paths, Options{Registry: connector.NewRegistry(nil, nil), LookupEnv: os.LookupEnv})
	c := l.load(paths)
	if len(l.files) > 0 && c.State != "" {
		return c.State, nil
	}
	if err := l.finish().Err(); err != nil {
		return "", err
	}
	return "", errors.New("the configuration names no state folder")
}
