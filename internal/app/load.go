package app

import (
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/transform/jq"
	"github.com/pawlhq/pawl/internal/transform/schema"
)

// Load reads and checks a configuration with everything that this binary can
// check: expressions and schemas are compiled too.
func Load(paths []string, kinds *connector.Registry) (*config.Config, *config.Report) {
	return config.Load(paths, config.Options{
		Registry: kinds,
		CheckExpr: func(src string) error {
			_, err := jq.Compile(src)
			return err
		},
		CheckSchema: func(file string) error {
			_, err := schema.Load(file)
			return err
		},
		CheckStore: checkStore,
		CheckContract: func(text []byte) error {
			_, err := schema.Compile(text)
			return err
		},
		EventTypes: eventTypes(),
	})
}

// checkStore says what is wrong with a store of type redis. Nothing is dialed:
// a store connects with its first operation.
func checkStore(s config.Store) error {
	store, err := openRedis(s)
	if err != nil {
		return err
	}
	return store.Close()
}

// eventTypes are the types of event that subscriptions may name.
func eventTypes() []string {
	var names []string
	for _, e := range store.EventTypes() {
		names = append(names, string(e))
	}
	return names
}
