package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/explain"
	"github.com/pawlhq/pawl/internal/setting"
)

// explainText is an explanation for people: tables, and a line for each thing
// that is not one.
func (sh *shell) explainText(e explain.Explanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", e.Destination, e.Type)
	failureText(&b, e.Failure)
	if e.Group != nil {
		fmt.Fprintf(&b, "\n%s\n", sh.membersTable(e.Group))
	}
	fmt.Fprintf(&b, "\n%s\n", sh.attemptsTable(e))
	if e.Chain == nil {
		line(&b, "\nthen", e.Reason)
	} else {
		line(&b, "\nthen", fmt.Sprintf("%s, after %s (the later where each attempt takes its whole timeout)%s",
			reasonText(e.Course), windowText(e.GivenUpAfter), unmadeText(e.Course)))
		line(&b, "path", strings.Join(e.Path, " -> "))
	}
	if len(e.Chain) > 1 {
		fmt.Fprintf(&b, "\n%s\n", sh.chainTable(e.Chain))
	}
	b.WriteString("\n")
	outageText(&b, e)
	limitsText(&b, e)
	fmt.Fprintf(&b, "\n%s\n", sh.settingsTable(e.Settings))
	return b.String()
}

func (sh *shell) settingsTable(all []explain.Setting) *grid {
	s := sh.table("SETTING", "VALUE", "FROM")
	for _, v := range all {
		s.row(v.Name, v.Value, v.From)
	}
	return s
}

// explainJobText is what would happen to a job, for people.
func (sh *shell) explainJobText(j *explain.Job) string {
	var b strings.Builder
	where := "queue " + j.Queue
	if j.Endpoint != "" {
		where += ", endpoint " + j.Endpoint
	}
	fmt.Fprintf(&b, "%s@%s (%s)\n", j.Task, j.Version, where)
	fmt.Fprintf(&b, "\n%s\n", sh.scheduleTable("ATTEMPT", j.Attempts))
	line(&b, "\nthen", fmt.Sprintf("a dead letter (exhausted), %s after the first attempt (the later where each takes its whole timeout)", windowText(j.GivenUpAfter)))
	line(&b, "lost", fmt.Sprintf("not counted: %d in a row whose worker fell silent, %d that no worker answered for", j.Lost, j.Unreceived))
	if j.Repeat == job.RepeatUnsafe {
		line(&b, "unsafe", "after a timeout, a lost worker or an effect that is not known it is not tried again: a dead letter (uncertain)")
	}
	if c := j.Circuit; c != nil {
		line(&b, "circuit", fmt.Sprintf("opens after %d failures in a row of %s, for %s; jobs wait meanwhile, and use up no attempt", c.Failures, j.Endpoint, c.Cooldown))
	}
	if !j.Contract {
		text := "the configuration has none of the task; pawl tasks list shows what workers registered"
		if j.Near != "" {
			text += ". Did you mean " + j.Near + "?"
		}
		line(&b, "contract", text)
	}
	fmt.Fprintf(&b, "\n%s\n", sh.settingsTable(j.Settings))
	return b.String()
}

// line writes a word and what is to be said of it, in two columns. The word may
// begin with empty lines.
func line(b *strings.Builder, word, text string) {
	column := 10 + strings.Count(word, "\n")
	fmt.Fprintf(b, "%-*s%s\n", column, word, text)
}

func failureText(b *strings.Builder, f *explain.Failure) {
	if f == nil {
		return
	}
	verb := "is not retried"
	switch {
	case f.Delivered:
		verb = "means delivered (delivered_on)"
	case f.Retried:
		verb = "is retried"
	}
	line(b, "\nfailure", fmt.Sprintf("%s: %s", f.Tags, verb))
	line(b, "because", f.Because)
	line(b, "breaker", f.Breaker)
	if f.Hold > 0 {
		line(b, "hold", fmt.Sprintf("every message waits %s", f.Hold))
	}
}

func (sh *shell) membersTable(g *explain.Group) *grid {
	t := sh.table("MEMBER", "TYPE", "WHERE", "FIRST FOR", "AT ONCE", "TIMEOUT", "BREAKER")
	for _, m := range g.Members {
		share := "the fastest"
		if g.Strategy != "least_latency" {
			share = percent(m.Share)
		}
		t.row(m.Name, m.Type, m.Where, share, strconv.Itoa(m.Workers), m.Timeout.String(), opensText(m.Breaker))
	}
	return t
}

func (sh *shell) attemptsTable(e explain.Explanation) *grid {
	word := "ATTEMPT"
	if e.Group != nil {
		word = "ROUND"
	}
	return sh.scheduleTable(word, e.Attempts)
}

func (sh *shell) scheduleTable(word string, attempts []explain.Attempt) *grid {
	t := sh.table(word, "WAIT", "SINCE FIRST", "IF ALL TIME OUT")
	for _, a := range attempts {
		slowest := round(a.Slowest.D())
		if a.MayBePast {
			slowest += ", too late: not made"
		}
		t.row(strconv.Itoa(a.Number), windowText(a.Wait), windowText(a.Since), slowest)
	}
	return t
}

// chainTable is what a message goes through where everything is away.
func (sh *shell) chainTable(chain []explain.Step) *grid {
	t := sh.table("CHAIN", "TYPE", "WHERE", "TRIES", "WAITS", "ENTERED", "LEFT", "BECAUSE")
	for _, s := range chain {
		var waits []string
		for i, a := range s.Attempts {
			if i > 0 {
				waits = append(waits, round(a.Wait.Latest.D()))
			}
		}
		t.row(s.Destination, s.Type, s.Where, triesText(s.Attempts), waitsText(waits), windowText(s.Entered), windowText(s.Left), reasonText(s.Course))
	}
	return t
}

func triesText(attempts []explain.Attempt) string {
	if n := len(attempts); n > 0 && attempts[0].Sends > 1 {
		return fmt.Sprintf("%d × %d", n, attempts[0].Sends)
	}
	return strconv.Itoa(len(attempts))
}

// waitsText lists the longest that each wait can be; of many the ends say enough.
func waitsText(waits []string) string {
	const most = 4
	switch n := len(waits); {
	case n == 0:
		return "-"
	case n > most:
		return "to " + strings.Join(waits[:2], ", ") + " … " + waits[n-1]
	}
	return "to " + strings.Join(waits, ", ")
}

func reasonText(c explain.Course) string {
	if c.Tag == "" {
		return c.Reason
	}
	return fmt.Sprintf("%s (%s)", c.Reason, c.Tag)
}

func unmadeText(c explain.Course) string {
	switch c.Unmade {
	case 0:
		return ""
	case 1:
		return "; 1 more attempt is allowed and never made"
	}
	return fmt.Sprintf("; %d more attempts are allowed and never made", c.Unmade)
}

// outageText is what becomes of messages while everything is away.
func outageText(b *strings.Builder, e explain.Explanation) {
	if p := e.Patience; p != nil {
		line(b, "patience", fmt.Sprintf("the first dead letter comes %s after everything went away, by the tries alone", windowText(p.Tries)))
		if p.Spent != nil {
			line(b, "", "with the retry budget spent: "+soonest(*p.Spent))
		}
		if o := p.Open; o != nil {
			line(b, "", "once the breakers are open: "+openText(o))
		}
	}
	if a := e.Amplification; a != nil {
		text := fmt.Sprintf("a message becomes %s at most", a.Sum)
		if a.Average > 0 {
			text += fmt.Sprintf("; the budget holds it to %.3g on average", a.Average)
		}
		line(b, "sends", text)
	}
	if l := e.Longest; l != nil {
		line(b, "open", fmt.Sprintf("for %s at most (%s)", round(l.Time.D()), l.Sum))
	} else {
		line(b, "open", "for as long as it takes: there is no deadline")
	}
}

func openText(o *explain.OpenPatience) string {
	if o.WaitsAt == "" {
		when := afterText(o.Earliest)
		if o.Latest != nil && *o.Latest > o.Earliest {
			when = "after " + windowText(explain.Window{Earliest: o.Earliest, Latest: *o.Latest})
		}
		return when
	}
	text := fmt.Sprintf("%s; messages wait for %s, %d of them before senders are pushed back", soonest(o.Earliest), o.WaitsAt, o.Places)
	if o.Latest == nil {
		return text + ", without an end"
	}
	return text + ", for " + round(o.Latest.D()) + " at most"
}

func afterText(d setting.Duration) string {
	if d == 0 {
		return "at once"
	}
	return "after " + round(d.D())
}

// soonest is afterText of a time that others may not know.
func soonest(d setting.Duration) string {
	if d == 0 {
		return afterText(d)
	}
	return afterText(d) + " at the earliest"
}

// limitsText is what keeps the traffic in bounds.
func limitsText(b *strings.Builder, e explain.Explanation) {
	if e.Breaker != nil {
		line(b, "breaker", opensText(e.Breaker)+"; "+atOpenText(e.AtOpen))
	} else if e.AtOpen != "" {
		line(b, "breaker", "all members' open: "+atOpenText(e.AtOpen))
	}
	if e.Group != nil {
		line(b, "picks", strategyText(e.Group))
		line(b, "health", healthText(e.Group.Health))
	}
	if h := e.Hedge; h != nil {
		after := h.After
		if h.MinSamples > 0 {
			after = fmt.Sprintf("the 95th percentile of the last minute (from %d answers on)", h.MinSamples)
		}
		line(b, "hedge", fmt.Sprintf("without an answer after %s a message goes to another member too, %d at most: %d sends for one that is slow; each takes from rate limit and budget",
			after, h.Max, h.Sends))
	}
	if r := e.RateLimit; r != nil {
		line(b, "rate", fmt.Sprintf("%g a second, %d at once; a full lane of %d takes %s", r.PerSecond, r.Burst, r.Places, round(r.Backlog.D())))
	}
	if a := e.Budget; a != nil {
		text := fmt.Sprintf("all messages together may make %g retries for each first attempt and %g more in any %s; past that a message leaves at once", a.Ratio, a.Floor, a.Window)
		if a.Store != "" {
			text += "; counted with the other relays in " + a.Store
		}
		line(b, "budget", text)
	}
	if t := e.Batch; t != nil {
		line(b, "batch", fmt.Sprintf("up to %d messages or %s in one attempt; a message waits %s for others at most", t.MaxMessages, t.MaxBytes, t.MaxWait))
	}
	if q := e.Queue; q != nil {
		line(b, "queue", fmt.Sprintf("messages of %s: a wait of more than %s, and what is not delivered in the end, goes back to the queue while the job has attempts left; this schedule then begins anew%s",
			strings.Join(q.Sources, ", "), q.MaxWait, deferralText(q)))
	}
}

func opensText(k *explain.Breaker) string {
	if k == nil {
		return "none"
	}
	var open []string
	for _, d := range k.OpenFor {
		open = append(open, d.String())
	}
	return fmt.Sprintf("opens at %s failures of %d messages in %s, for %s; %s close it",
		percent(k.Ratio), k.Messages, k.Window, strings.Join(open, ", "), count(k.Trials, "trial"))
}

func atOpenText(a explain.AtOpen) string {
	switch a {
	case explain.HopsAtOpen:
		return "a message then goes to the fallback at once"
	case explain.WaitsAtOpen:
		return "a message then waits in the lane"
	case explain.FailsAtOpen:
		return "a message then becomes a dead letter at once"
	}
	return "nothing ever keeps a message away" // one member has no breaker
}

func strategyText(g *explain.Group) string {
	what := map[string]string{
		"failover":      "the first of the list that is well",
		"round_robin":   "each member in turn",
		"weighted":      "each member as often as its weight says",
		"least_latency": "the member whose answers came fastest lately",
	}[string(g.Strategy)]
	return fmt.Sprintf("%s (%s); on an error the next member at once, each once a round", cmp.Or(what, "a member"), g.Strategy)
}

func healthText(h *explain.Health) string {
	if h == nil {
		return "not checked: only breakers and holds keep messages from a member that is down"
	}
	what := "the protocol's own check"
	if h.Path != "" {
		what = "GET " + h.Path
	}
	return fmt.Sprintf("%s every %s, within %s; a member that is down is passed over after %s at most (%s in a row), and back after %s",
		what, h.Interval, h.Timeout, h.NoticedAfter, count(h.UnhealthyAfter, "failure"), count(h.HealthyAfter, "pass"))
}

func percent(share float64) string { return fmt.Sprintf("%.3g%%", 100*share) }

// deferralText says where in the schedule a message goes back.
func deferralText(q *explain.Queue) string {
	if q.Attempt == 0 {
		return "; none of these waits is that long, but one at an open breaker may be"
	}
	return fmt.Sprintf("; attempt %d may be the first after one", q.Attempt)
}

func windowText(w explain.Window) string {
	if w.Earliest == w.Latest {
		return round(w.Latest.D())
	}
	return round(w.Earliest.D()) + " – " + round(w.Latest.D())
}
