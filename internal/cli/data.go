package cli

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
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

// message makes a message of a body, as a source would.
func newMessage(source, id string, body []byte) (*message.Message, error) {
	if id == "" {
		id = deadletter.NewID(time.Now())
	}
	if err := message.CheckID(id); err != nil {
		return nil, usagef("--id: %w", err)
	}
	m := &message.Message{ID: id, Source: source, Time: time.Now().UTC(), ContentType: "text/plain; charset=utf-8", Body: body}
	if jsontext.Value(body).IsValid() {
		m.ContentType = "application/json"
	}
	return m, nil
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
