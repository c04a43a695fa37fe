package contract

import "context"

// Asked is an open file that is to be sent now: a person wants it, or the spool is full.
type Asked struct {
	Reserve bool          // it may take a slot of the reserve; guarded by the caller
	sealed  chan struct{} // closed once files are known
	files   []string
}

// NewAsked asks for a file.
func NewAsked() *Asked { return &Asked{sealed: make(chan struct{})} }

// Files are the names under which the rows are sent, in their order; none if the other
// lane has overruled all of them. ok is false if they are not written before ctx ends.
func (a *Asked) Files(ctx context.Context) (files []string, ok bool) {
	select {
	case <-a.sealed:
		return a.files, true
	case <-ctx.Done():
		return nil, false
	}
}

// Becomes tells who asked what the rows are sent as; a may be nil.
func (a *Asked) Becomes(imports []Import) {
	if a == nil {
		return
	}
	for _, imp := range imports {
		a.files = append(a.files, imp.File)
	}
	close(a.sealed)
}
