// Command pawl is the relay. See the README, or pawl --help.
package main

import (
	"os"

	"github.com/pawlhq/pawl/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
