package cli

import (
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/pawlhq/pawl/internal/adminapi"
)

// progress shows how far a replay is: a bar on a terminal, nothing in a pipe.
type progress struct {
	bars *mpb.Progress // nil: nothing is shown
	bar  *mpb.Bar
	last adminapi.ReplayLine
}

func (sh *shell) progress() *progress {
	if !isTerminal(sh.err) || sh.json {
		return &progress{}
	}
	return &progress{bars: mpb.New(mpb.WithOutput(sh.err), mpb.WithWidth(40))}
}

func (p *progress) show(now adminapi.ReplayLine) {
	p.last = now
	if p.bars == nil {
		return
	}
	if p.bar == nil {
		p.bar = p.bars.AddBar(int64(now.Total),
			mpb.PrependDecorators(decor.Name("replayed "), decor.CountersNoUnit("%d/%d")),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return failedWords(p.last) })))
	}
	p.bar.SetCurrent(int64(now.Delivered + now.FailedAgain))
}

func failedWords(p adminapi.ReplayLine) string {
	if p.FailedAgain == 0 {
		return ""
	}
	return count(p.FailedAgain, "failure") + " again"
}

func (p *progress) end() {
	if p.bars == nil {
		return
	}
	if p.bar != nil {
		p.bar.Abort(false)
	}
	p.bars.Wait()
}
