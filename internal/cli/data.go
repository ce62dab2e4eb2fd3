package cli

import (
	"encoding/json/v2"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxData bounds what --data reads, in bytes: sixteen times what a source
// takes unless told.
const maxData = 16 << 20

// data reads what --data names: a literal, @file, or - for standard input.
func (sh *shell) data(arg string) ([]byte, error) {
	var from io.Reader
	switch file, isFile := strings.CutPrefix(arg, "@"); {
	case arg == "-":
		from = sh.in
	case isFile:
		f, err := os.Open(file)
		if err != nil {
			return nil, usagef("--data: %w", err)
		}
		defer f.Close()
		from = f
	default:
		from = strings.NewReader(arg)
	}
	body, err := io.ReadAll(io.LimitReader(from, maxData+1))
	if err != nil {
		return nil, usagef("--data: %w", err)
	}
	if len(body) > maxData {
		return nil, usagef("--data: longer than %d bytes", maxData)
	}
	return body, nil
}

// printJSON prints one result on a line of its own.
func (sh *shell) printJSON(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(sh.out, "%s\n", text)
	return err
}
