package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/cli"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/httpapi"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: docgen FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

// page is one generated file.
type page struct {
	name string
	make func() ([]byte, error)
}

// pages are all of them.
func pages() []page {
	kinds := builtin.Connectors()
	return []page{
		{"api.md", func() ([]byte, error) { return apiPage(), nil }},
		{"commands.md", func() ([]byte, error) { return commands(cli.Commands()), nil }},
		{"configuration.md", func() ([]byte, error) { return config.Reference(kinds), nil }},
		{"job-states.md", jobStates},
		{"metrics.md", metrics},
		{"openapi.json", func() ([]byte, error) { return httpapi.Document(apiVersion), nil }},
		{"pawl.schema.json", func() ([]byte, error) { return config.Schema(kinds) }},
	}
}

// write writes every page into the folder.
func write(folder string) error {
	for _, p := range pages() {
		text, err := p.make()
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, p.name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
