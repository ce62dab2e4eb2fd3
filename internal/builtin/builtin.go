// Package builtin lists the kinds that this binary knows, one line each. Adding
// a kind is one package and one line here.
package builtin

import (
	"slices"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/faulty"
	"github.com/pawlhq/pawl/internal/connector/file"
	"github.com/pawlhq/pawl/internal/connector/http"
	"github.com/pawlhq/pawl/internal/connector/jobqueue"
	"github.com/pawlhq/pawl/internal/connector/stdio"
)

// Connectors returns the kinds of source and destination.
func Connectors() *connector.Registry {
	return connector.NewRegistry(
		[]connector.SourceKind{
			http.SourceKind(),
			jobqueue.SourceKind(),
		},
		slices.Concat(
			http.DestinationKinds(),
			[]connector.DestinationKind{file.DestinationKind(), jobqueue.DestinationKind()},
			stdio.DestinationKinds(),
			[]connector.DestinationKind{faulty.DestinationKind()},
		),
	)
}
