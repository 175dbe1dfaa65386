package faultapi

import (
	"fmt"
	"hash/fnv"

	"k8s.io/utils/dump"
)

// AgentHash returns the hash that a node agent computes of a value encoded in JSON, for its report about a container:
// FNV-32a over the text form of the bytes, as in the kubelet (pkg/util/hash).
func AgentHash(json string) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, dump.ForHash([]byte(json)))
	return h.Sum32()
}
