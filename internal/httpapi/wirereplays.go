package httpapi

// ReplayRequest asks for something to be done to many jobs.
type ReplayRequest struct {
	Action          string       `json:"action,omitzero" enum:"retry,cancel,delete" doc:"retry brings dead letters back, cancel ends queued and running jobs, delete removes jobs that are not running. retry unless said."`
	Filter          ReplayFilter `json:"filter" doc:"Which jobs; an empty object is every job that the action fits."`
	AcceptUncertain bool         `json:"accept_uncertain,omitzero" doc:"Bring back jobs whose effect may have happened already. Of retry with a filter whose reason is uncertain."`
	PerSecond       float64      `json:"per_second,omitzero" minimum:"0" maximum:"10000" doc:"How many jobs a second; as fast as it goes unless said."`
	StopShare       *float64     `json:"stop_share,omitzero" minimum:"0" maximum:"1" doc:"Of retry: stop by itself where more than this share fails again, and have no more under way than succeeded, and 100; 0.5 unless said, 0 never stops and does not wait."`
	Review          bool         `json:"review,omitzero" doc:"Begin only once another key has approved it."`
}

// ReplayFilter chooses jobs. What it leaves out lets everything pass.
type ReplayFilter struct {
	Queue         string `json:"queue,omitzero" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$" doc:"A key that is limited to queues has to say one of them."`
	Task          string `json:"task,omitzero" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$"`
	Endpoint      string `json:"endpoint,omitzero" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$"`
	Status        string `json:"status,omitzero" enum:"queued,running,succeeded,failed,cancelled" doc:"Of delete and cancel."`
	Reason        string `json:"reason,omitzero" enum:"exhausted,non_retryable,output_schema,lost,uncertain" doc:"Dead letters of this reason. uncertain ones are left out unless it is named."`
	Tag           string `json:"tag,omitzero" maxLength:"128" pattern:"^[A-Za-z0-9._:-]+$"`
	CreatedAfter  *Time  `json:"created_after,omitzero"`
	CreatedBefore *Time  `json:"created_before,omitzero"`
	FailedAfter   *Time  `json:"failed_after,omitzero"`
	FailedBefore  *Time  `json:"failed_before,omitzero"`
}

// Preview says what a replay would have to do.
type Preview struct {
	Jobs      int64            `json:"jobs"`
	Uncertain int64            `json:"uncertain" doc:"How many of them may have had their effect already."`
	AtLeast   bool             `json:"at_least" doc:"More rows were there than a preview looks at: the numbers are the least."`
	Tasks     map[string]int64 `json:"tasks" doc:"By task@version, 100 of them at most."`
	Reasons   map[string]int64 `json:"reasons"`
}

// Replays is a page of replays, newest first.
type Replays struct {
	Replays    []Replay `json:"replays" nullable:"false"`
	NextCursor *string  `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null after the last."`
}

// Replay is something that is done to many jobs.
type Replay struct {
	ID              string       `json:"id"`
	Action          string       `json:"action" enum:"retry,cancel,delete"`
	Filter          ReplayFilter `json:"filter"`
	Before          Time         `json:"before" doc:"Jobs that were created, or failed, after it are left alone."`
	AcceptUncertain bool         `json:"accept_uncertain"`
	PerSecond       float64      `json:"per_second" doc:"0 is as fast as it goes."`
	StopShare       float64      `json:"stop_share" doc:"0 never stops."`
	State           string       `json:"state" enum:"in_review,running,paused,stopped,done,cancelled" doc:"stopped: too many failed again; resume or cancel it."`
	Why             *string      `json:"why" nullable:"true" doc:"What brought it into its state, where that was no step of its own."`
	CreatedBy       string       `json:"created_by"`
	ApprovedBy      *string      `json:"approved_by" nullable:"true"`
	CreatedAt       Time         `json:"created_at"`
	EndedAt         *Time        `json:"ended_at" nullable:"true"`
	Total           int64        `json:"total" doc:"How many there were to do by its preview."`
	TotalAtLeast    bool         `json:"total_at_least" doc:"There were more than the preview looked at."`
	Done            int64        `json:"done"`
	Skipped         int64        `json:"skipped" doc:"Left: another job has their unique key, or a worker still has them."`
	Succeeded       int64        `json:"succeeded" doc:"Of those that were brought back."`
	FailedAgain     int64        `json:"failed_again" doc:"Of those that were brought back."`
	Withdrawn       int64        `json:"withdrawn" doc:"Of those that were brought back: cancelled or deleted since."`
	UnderWay        int64        `json:"under_way" doc:"Brought back, and not ended since."`
}

// RetryRequest is how a person brings a dead letter back.
type RetryRequest struct {
	AcceptUncertain bool `json:"accept_uncertain,omitzero" doc:"Its effect may have happened already, and may happen again."`
}
