// Runs the test suite without ns-3's own test runner: weir-test --suite=weir
#include "ns3/test.h"

int
main(int argc, char* argv[])
{
    return ns3::TestRunner::Run(argc, argv);
}
