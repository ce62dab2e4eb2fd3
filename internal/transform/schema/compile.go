package schema

import (
	"bytes"
	"context"
	"errors"
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
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, errors.New(oneLine(err))
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	if err := c.AddResource(textName, doc); err != nil {
		return nil, errors.New(oneLine(err))
	}
	compiled, err := c.Compile(textName)
	if err != nil {
		return nil, errors.New(oneLine(err))
	}
	return &Schema{file: "the schema", schema: compiled}, nil
}

// noLoader finds nothing.
type noLoader struct{}

func (noLoader) Load(ref string) (any, error) {
	return nil, fmt.Errorf("it refers to %.200s; a schema may refer to its own parts only", ref)
}

// Check checks a JSON value, as Apply does a body.
func (s *Schema) Check(value []byte) error {
	_, err := s.Apply(context.Background(), &message.Message{ContentType: "application/json", Body: value})
	return err
}
