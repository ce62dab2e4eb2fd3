package lane

// ID is a lane's number in its store.
type ID int64

// Key is what the jobs of a lane have in common.
type Key struct {
	Queue, Task, Version string
	Endpoint             string // "" for none
	Priority             int    // higher goes first
	// Synthetic jobs find out how an endpoint is: they stand behind its
	// SyntheticGate.
	Synthetic bool
}

// EndpointGate returns the gate that stands before the lane's endpoint.
func (k Key) EndpointGate() Gate {
	if k.Synthetic {
		return Gate{SyntheticGate, k.Endpoint}
	}
	return Gate{EndpointGate, k.Endpoint}
}

// GateKind says what a gate stands before.
type GateKind string

// The kinds of gate.
const (
	QueueGate    GateKind = "queue"
	EndpointGate GateKind = "endpoint"
	// SyntheticGate stands before an endpoint's synthetic jobs, which pass an open
	// circuit.
	SyntheticGate GateKind = "synthetic"
)

// Gate names a gate: a queue's or an endpoint's. A lane stands behind the gate
// of its queue and, where it has one, of its endpoint.
type Gate struct {
	Kind GateKind
	Name string
}

// Want is what a worker asks for.
type Want struct {
	// Queues are taken from in turn, so that none starves; at least one.
	Queues []string
	// Tasks are what the worker handles; empty is every task.
	Tasks []Task
	// Max is how many jobs it takes at most.
	Max int
}

// Task names a task, in one version or ("") in every.
type Task struct{ Name, Version string }

// Wants reports whether a worker that asks for w takes jobs of the lane.
func (w Want) Wants(k Key) bool {
	return w.wantsQueue(k.Queue) && w.wantsTask(k.Task, k.Version)
}

func (w Want) wantsQueue(queue string) bool {
	for _, q := range w.Queues {
		if q == queue {
			return true
		}
	}
	return false
}

func (w Want) wantsTask(task, version string) bool {
	if len(w.Tasks) == 0 {
		return true
	}
	for _, t := range w.Tasks {
		if t.Name == task && (t.Version == "" || t.Version == version) {
			return true
		}
	}
	return false
}

// Take says to take up to N due jobs from the head of a lane.
type Take struct {
	Lane ID
	N    int
}
