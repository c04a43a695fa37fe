package sandbox

// report sends the e-mail reports of an execution that has ended: a log line
// for each recipient.
func (s *Sandbox) report(e Execution) {
	for _, to := range e.Recipients {
		s.conf.Log.Info("e-mail report", "to", to, "execution", e.ID, "etl", e.ETL, "file", e.File,
			"status", string(e.Status), "error", e.Error, "read", e.Results.Read, "in_error", e.Results.InError,
			"inserted", e.Results.Inserted, "updated", e.Results.Updated, "deleted", e.Results.Deleted)
	}
}
