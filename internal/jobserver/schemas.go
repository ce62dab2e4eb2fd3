package jobserver

import (
	"crypto/sha256"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/transform/schema"
)

// compileSchema compiles the JSON Schema of a contract. It refers to nothing but
// itself.
func compileSchema(text []byte) (*schema.Schema, error) {
	if !jsontext.Value(text).IsValid() {
		return nil, errors.New("is no JSON")
	}
	compiled, err := schema.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("is no JSON Schema: %w", err)
	}
	return compiled, nil
}

// canonical is a JSON value in its canonical form, or as it is where it is none.
func canonical(text []byte) []byte {
	if text == nil {
		return nil
	}
	v := jsontext.Value(text).Clone()
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return text
	}
	return v
}

// hashSchema names a schema; zero for none.
func hashSchema(text []byte) job.SchemaHash {
	if text == nil {
		return job.SchemaHash{}
	}
	return sha256.Sum256(text)
}

// maxCompiled is how many compiled schemas are kept ready.
const maxCompiled = 1000

// compiled keeps compiled schemas by their text's hash. Safe for concurrent use.
type compiled struct {
	mu  sync.Mutex
	all map[job.SchemaHash]*schema.Schema
}

// get returns the schema of a hash, compiled once. text is asked for its text
// where it is not at hand.
func (c *compiled) get(hash job.SchemaHash, text func() ([]byte, error)) (*schema.Schema, error) {
	c.mu.Lock()
	s := c.all[hash]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	t, err := text()
	if err != nil {
		return nil, err
	}
	if s, err = compileSchema(t); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[job.SchemaHash]*schema.Schema{}
	}
	if len(c.all) >= maxCompiled {
		for any := range c.all { // whichever: what is used is compiled again
			delete(c.all, any)
			break
		}
	}
	c.all[hash] = s
	return s, nil
}

// violations returns in how far a JSON value does not fit a schema, the first
// some of them, and how many there are in all.
func violations(s *schema.Schema, value []byte) (all []schema.Violation, total int, err error) {
	err = s.Check(value)
	if refused, ok := errors.AsType[*schema.Error](err); ok {
		return refused.Violations, refused.Total, nil
	}
	return nil, 0, err
}

// refusal is what a job keeps of a result that does not fit.
func refusal(all []schema.Violation, total int) string {
	texts := make([]string, 0, len(all)+1)
	for _, v := range all {
		at := v.Pointer
		if at == "" {
			at = "the result"
		}
		texts = append(texts, at+": "+v.Message)
	}
	if more := total - len(all); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return "the result does not fit the task's output schema: " + strings.Join(texts, "; ")
}
