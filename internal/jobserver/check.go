package jobserver

// Check returns what Create would find wrong with the jobs, as its *InvalidError,
// and asks nothing of the store: for a caller that has found a fault itself and
// tells everything at once.
func (s *Server) Check(by Principal, jobs []New) error {
	c := creator{by: by, settings: s.settings.Load(), schemas: &s.schemas, clock: s.store.Now}
	for i := range jobs {
		c.job = i
		c.check(&jobs[i])
	}
	return c.err()
}
