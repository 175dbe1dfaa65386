package v1beta1

import (
	"encoding/json"
	"fmt"

	"github.com/workloadkit/workloadkit/decode"
)

// UnmarshalJSON reads a spec whose template or claim templates need not make sense: no schema has checked them, and a list of
// CloneSets must not fail for one of them. What is wrong with them is in Undecodable.
func (s *CloneSetSpec) UnmarshalJSON(data []byte) error {
	type plain CloneSetSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec", "template", "volumeClaimTemplates")
	if err != nil {
		return err
	}
	*s = CloneSetSpec(read)
	s.Undecodable = problems
	return nil
}

// MarshalJSON refuses a spec that was not read in full: writing it would lose what was not read.
func (s CloneSetSpec) MarshalJSON() ([]byte, error) {
	if len(s.Undecodable) > 0 {
		return nil, fmt.Errorf("a spec that was not decoded in full cannot be written: %w", s.Undecodable[0])
	}
	type plain CloneSetSpec
	return json.Marshal(plain(s))
}
