package main

// This file describes the tests of fi_ubertest.

import (
	"fmt"
	"strings"
)

// uberFile is the name of the file of fi_ubertest's tests.
const uberFile = "funet.test"

// uberTests returns the file for a job: fi_getinfo gets the address of its node 0.
func (j *job) uberTests() []byte {
	return []byte(strings.ReplaceAll(uberForm, "NODE", fmt.Sprintf("funet://%d/0/0", j.gid)))
}

// uberForm are the tests: every kind of call of endpoints of type FI_EP_RDM, then both address
// vectors and counters with some of them; with counters the target of a write counts
// (FI_RMA_EVENT). A set has the product of its lists.
const uberForm = `{
	prov_name: funet, node: "NODE", ep_type: [FI_EP_RDM], test_flags: FT_FLAG_QUICKTEST,
	test_type: [FT_TEST_LATENCY],
	class_function: [FT_FUNC_SEND, FT_FUNC_SENDV, FT_FUNC_SENDMSG, FT_FUNC_SENDDATA, FT_FUNC_INJECT,
		FT_FUNC_INJECTDATA],
	test_class: [FT_CAP_MSG, FT_CAP_TAGGED],
	av_type: [FI_AV_TABLE],
	comp_type: [FT_COMP_QUEUE]
},
{
	prov_name: funet, node: "NODE", ep_type: [FI_EP_RDM], test_flags: FT_FLAG_QUICKTEST,
	test_type: [FT_TEST_LATENCY, FT_TEST_BANDWIDTH],
	class_function: [FT_FUNC_SEND],
	test_class: [FT_CAP_MSG, FT_CAP_TAGGED],
	av_type: [FI_AV_MAP],
	comp_type: [FT_COMP_CNTR]
},
{
	prov_name: funet, node: "NODE", ep_type: [FI_EP_RDM], test_flags: FT_FLAG_QUICKTEST,
	test_type: [FT_TEST_LATENCY],
	class_function: [FT_FUNC_READ, FT_FUNC_READV, FT_FUNC_READMSG, FT_FUNC_WRITE, FT_FUNC_WRITEV,
		FT_FUNC_WRITEMSG, FT_FUNC_WRITEDATA, FT_FUNC_INJECT_WRITE, FT_FUNC_INJECT_WRITEDATA],
	test_class: [FT_CAP_RMA],
	av_type: [FI_AV_TABLE],
	comp_type: [FT_COMP_QUEUE],
	mr_mode: [FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY]
},
{
	prov_name: funet, node: "NODE", ep_type: [FI_EP_RDM], test_flags: FT_FLAG_QUICKTEST,
	test_type: [FT_TEST_LATENCY],
	class_function: [FT_FUNC_ATOMIC, FT_FUNC_ATOMICMSG, FT_FUNC_FETCH_ATOMIC, FT_FUNC_FETCH_ATOMICMSG],
	op: [FI_SUM],
	datatype: [FI_INT32, FI_UINT64],
	test_class: [FT_CAP_ATOMIC],
	av_type: [FI_AV_TABLE],
	comp_type: [FT_COMP_QUEUE],
	mr_mode: [FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY]
},
{
	prov_name: funet, node: "NODE", ep_type: [FI_EP_RDM], test_flags: FT_FLAG_QUICKTEST,
	test_type: [FT_TEST_LATENCY],
	class_function: [FT_FUNC_READ, FT_FUNC_READMSG, FT_FUNC_WRITE, FT_FUNC_WRITEMSG, FT_FUNC_WRITEDATA,
		FT_FUNC_INJECT_WRITE],
	test_class: [FT_CAP_RMA],
	av_type: [FI_AV_TABLE],
	comp_type: [FT_COMP_CNTR],
	mr_mode: [FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY]
},
{
	prov_name: funet, node: "NODE", ep_type: [FI_EP_RDM], test_flags: FT_FLAG_QUICKTEST,
	test_type: [FT_TEST_LATENCY],
	class_function: [FT_FUNC_ATOMIC, FT_FUNC_FETCH_ATOMIC],
	op: [FI_SUM],
	datatype: [FI_INT32, FI_UINT64],
	test_class: [FT_CAP_ATOMIC],
	av_type: [FI_AV_TABLE],
	comp_type: [FT_COMP_CNTR],
	mr_mode: [FI_MR_VIRT_ADDR, FI_MR_ALLOCATED, FI_MR_PROV_KEY]
}
`
