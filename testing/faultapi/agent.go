package faultapi

import (
	"fmt"
	"hash/fnv"

	"k8s.io/utils/dump"
)

// AgentHash is how a node agent hashes what it reports about a container, given as JSON: FNV-32a over the printed bytes, as the
// kubelet does (pkg/util/hash).
func AgentHash(json string) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, dump.ForHash([]byte(json)))
	return h.Sum32()
}
