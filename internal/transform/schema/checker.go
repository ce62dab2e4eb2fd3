package schema

import (
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The bounds of one check, in looks of a part of the schema at a part of the body.
// anyOf and its like in a schema that refers to itself double them with each level
// of a body, and allOf with each level of the schema: a body of a hundred bytes could
// keep a core busy for years.
const (
	minSteps  = 10_000    // for any body
	eachValue = 64        // more for each value in it
	maxSteps  = 1_000_000 // in all: a second or three
)

// stepsFor is how many steps a body of so many values may take.
func stepsFor(values int) int {
	return min(minSteps+eachValue*values, maxSteps)
}

// errSteps ends a check that takes too long.
var errSteps = errors.New("the check takes too many steps: the schema tries out too much for a body like this; " +
	"let fewer branches of anyOf, oneOf and allOf fit the same value")

// checker is a compiled schema that counts its steps. It serves one check at a time.
type checker struct {
	schema *jsonschema.Schema
	left   int
}

// Validate counts a step; the library calls it for each part of the schema that it
// looks at.
func (c *checker) Validate(*jsonschema.ValidatorContext, any) {
	if c.left--; c.left < 0 {
		panic(errSteps)
	}
}

// compile makes a checker of the schema that the loader has under the name.
func compile(loader jsonschema.URLLoader, name string) (*checker, error) {
	made := &checker{left: maxSteps} // the schema itself is checked, too
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(loader)
	c.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "urn:pawl:steps", Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) { return made, nil },
	})
	c.AssertVocabs()
	var err error
	if made.schema, err = c.Compile(name); err != nil {
		return nil, errors.New(oneLine(err))
	}
	return made, nil
}

// validate checks a value of so many values. A panic of the library is an error: a
// message must not be able to take the relay down.
func (c *checker) validate(v any, values int) (err error) {
	defer func() {
		switch r := recover(); {
		case r == nil:
		case r == errSteps: //nolint:errorlint // what this checker panics with
			err = errSteps
		default:
			err = fmt.Errorf("the check failed: %.200s", fmt.Sprint(r))
		}
	}()
	c.left = stepsFor(values)
	return c.schema.Validate(v)
}
