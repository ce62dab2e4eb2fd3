package jq

import (
	"encoding/json/jsontext"
	"fmt"
	"mime"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/transform"
)

// httpAttribute is where an HTTP source leaves the request's path, query and
// method.
const httpAttribute = "http"

// msgValue builds $msg.
func msgValue(m *message.Message) (any, error) {
	headers := make(map[string]any, len(m.Headers))
	for name, values := range m.Headers {
		list := make([]any, len(values))
		for i, v := range values {
			list[i] = v
		}
		headers[name] = list
	}
	attributes := make(map[string]any, len(m.Attributes))
	for name, text := range m.Attributes {
		v, err := attribute(name, text)
		if err != nil {
			return nil, err
		}
		attributes[name] = v
	}
	msg := map[string]any{
		"id":           m.ID,
		"source":       m.Source,
		"time":         m.Time.UTC().Format(time.RFC3339Nano),
		"key":          m.Key,
		"headers":      headers,
		"content_type": m.ContentType,
		"attributes":   attributes,
	}
	if request, ok := attributes[httpAttribute].(map[string]any); ok {
		for _, field := range []string{"path", "query", "method"} {
			if v, ok := request[field]; ok {
				msg[field] = v
			}
		}
	}
	return msg, nil
}

func attribute(name string, text jsontext.Value) (any, error) {
	v, err := transform.DecodeJSON(text)
	if err != nil {
		return nil, fmt.Errorf("jq: attribute %q of the message: %w", name, err)
	}
	return v, nil
}

// isJSON reports whether a content type is JSON or one of its +json kin.
func isJSON(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == "application/json" || t == "text/json" || strings.HasSuffix(t, "+json"))
}
