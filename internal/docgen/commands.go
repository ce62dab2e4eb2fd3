package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// commands returns the reference of a tree of commands as Markdown: what each
// prints with --help, on one page.
func commands(root *cobra.Command) []byte {
	var b strings.Builder
	b.WriteString("# Commands\n\n" + root.Long + "\n\n")
	code(&b, root.Example)
	b.WriteString("\nExit codes: 0 done; 1 the answer is no (not delivered, errors found, letters left); 2 usage or configuration.\n" +
		"`lint` alone answers 1 for a bad configuration.\n\n| command | what it does |\n|---|---|\n")
	contents(&b, root)
	b.WriteString("\n## Flags of every command\n\n")
	code(&b, root.PersistentFlags().FlagUsages())
	sections(&b, root)
	return []byte(b.String())
}

// shown returns the commands below c that the page tells of: pawl's own, and
// of cobra's only completion, whose help for each shell is long.
func shown(c *cobra.Command) []*cobra.Command {
	if c.Name() == "completion" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool {
		return sub.Name() == "help" || sub.Hidden
	})
}

// contents lists the commands below c with links to their sections.
func contents(b *strings.Builder, c *cobra.Command) {
	for _, sub := range shown(c) {
		path := sub.CommandPath()
		fmt.Fprintf(b, "| [`%s`](#%s) | %s |\n", path, strings.ReplaceAll(path, " ", "-"), sub.Short)
		contents(b, sub)
	}
}

// sections writes the sections of the commands below c.
func sections(b *strings.Builder, c *cobra.Command) {
	for _, sub := range shown(c) {
		long := sub.Long
		if long == "" {
			long = sub.Short + "."
		}
		fmt.Fprintf(b, "\n## %s\n\n%s\n\n", sub.CommandPath(), strings.TrimSpace(long))
		usage := sub.UseLine()
		if flags := sub.LocalNonPersistentFlags().FlagUsages(); flags != "" {
			usage += "\n\n" + flags
		}
		code(b, usage)
		if sub.Example != "" {
			b.WriteString("\nFor example:\n\n")
			code(b, sub.Example)
		}
		sections(b, sub)
	}
}

// code writes text as a block, its common indent of two cut.
func code(b *strings.Builder, text string) {
	b.WriteString("```\n")
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		b.WriteString(strings.TrimPrefix(strings.TrimRight(line, "\n"), "  ") + "\n")
	}
	b.WriteString("```\n")
}
