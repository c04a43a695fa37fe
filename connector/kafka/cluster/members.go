package cluster

import (
	"context"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Member is a member of a group, as the brokers know it.
type Member struct {
	ID   string
	Host string // where the brokers see it, an address without a port
	// Static says that it has a kafka.instanceId, whose next process takes its place at once.
	Static bool
	// Partitions are its own, by topic; nil while the group is sharing them.
	Partitions map[string][]int32
}

// Members are the group's. While it is not stable, it is not known which partitions are whose.
func Members(ctx context.Context, admin *kadm.Client, of string) (all []Member, stable bool, err error) {
	groups, err := admin.DescribeGroups(ctx, of)
	if err != nil {
		return nil, false, err
	}
	group := groups[of]
	if group.Err != nil {
		return nil, false, group.Err
	}
	stable = group.State == "Stable"
	all = make([]Member, len(group.Members))
	for i, m := range group.Members {
		all[i] = Member{ID: m.MemberID, Host: hostOf(m.ClientHost), Static: m.InstanceID != nil}
		assigned, ok := m.Assigned.AsConsumer()
		if !stable || !ok {
			continue
		}
		all[i].Partitions = map[string][]int32{}
		for _, t := range assigned.Topics {
			all[i].Partitions[t.Topic] = t.Partitions
		}
	}
	return all, stable, nil
}

// hostOf is the host as it can be asked: brokers write /10.0.0.7, some 10.0.0.7:51234.
func hostOf(client string) string {
	client = strings.TrimPrefix(client, "/")
	if host, _, err := net.SplitHostPort(client); err == nil {
		return host
	}
	return client
}
