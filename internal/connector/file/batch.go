package file

import (
	"context"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/message"
)

// SendBatch implements connector.Batcher: the lines stand side by side, in one
// write and one fsync, and are all in the file or none is. Only where they are
// longer together than seglog.MaxRecords are they several writes; the answer
// then tells which are in. A message that can't be a line fails by itself.
func (d *destination) SendBatch(ctx context.Context, batch []*message.Message) (connector.BatchAnswer, error) {
	each := make([]error, len(batch))
	failed, written := 0, 0
	var p part
	flush := func() {
		if err := d.log.AppendAll(ctx, p.lines); err != nil {
			for _, i := range p.at {
				each[i] = classify(err)
			}
			failed += len(p.at)
		} else {
			written += len(p.at)
		}
		p = part{}
	}
	for i, m := range batch {
		line, err := d.format.Line(m)
		if err != nil {
			each[i] = err
			failed++
			continue
		}
		if p.size+len(line)+1 > d.most {
			flush()
		}
		p.add(i, line)
	}
	failedBefore := failed
	flush()
	switch {
	case failed == 0:
		return connector.BatchAnswer{}, nil
	case failedBefore == 0 && written == 0:
		return connector.BatchAnswer{}, each[0] // one write, and it failed
	}
	return connector.BatchAnswer{Each: each}, nil
}

// part is what one write takes.
type part struct {
	lines [][]byte
	at    []int // where each line's message stands in the batch
	size  int   // newlines included
}

func (p *part) add(at int, line []byte) {
	p.lines, p.at, p.size = append(p.lines, line), append(p.at, at), p.size+len(line)+1
}
