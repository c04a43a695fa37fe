package reconcile

// LeaveOut has Next, Unconfirmed and Reconcile leave out the keys of these partitions.
func (k *Keys) LeaveOut(partitions map[any]bool) { k.out = partitions }

// LeftOut reports whether the key is one of those.
func (k *Keys) LeftOut(key string) bool {
	s := k.byKey[key]
	return s != nil && k.out[s.last.Partition]
}
