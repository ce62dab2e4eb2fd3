package schema

import (
	"bytes"
	"context"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawlhq/pawl/internal/core/message"
)

// textName is what a schema without a file is called inside the library.
const textName = "schema-text:///schema"

// Compile compiles a schema that stands in no file. It may refer to its own parts
// and to the meta-schemas of the drafts, and to nothing else. The text is a JSON
// value whose size the caller has bounded.
func Compile(text []byte) (*Schema, error) {
	return newSchema("the schema", textName, func() jsonschema.URLLoader { return onlyText(text) })
}

// onlyText is a schema's text, and finds nothing else.
type onlyText []byte

func (t onlyText) Load(ref string) (any, error) {
	if ref != textName {
		return nil, fmt.Errorf("it refers to %.200s; a schema may refer to its own parts only", ref)
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(t))
}

// Check checks a JSON value, as Apply does a body.
func (s *Schema) Check(value []byte) error {
	_, err := s.Apply(context.Background(), &message.Message{ContentType: "application/json", Body: value})
	return err
}
